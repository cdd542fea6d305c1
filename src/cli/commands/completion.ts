import { Argument, Command } from 'commander';
import { exitWith } from '../setup/command.ts';

/**
 * @param program Returns the complete program. It is only called when the command runs, because other
 *   commands are added after this one.
 */
export function completionCommand(program: () => Command): Command {
  const command = new Command('completion')
    .description('print a shell completion script for commands, options and ids')
    .addArgument(new Argument('<shell>', 'shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText(
      'after',
      `
bash:  echo 'source <(waybill completion bash)' >> ~/.bashrc
zsh:   echo 'source <(waybill completion zsh)' >> ~/.zshrc    after compinit
fish:  waybill completion fish > ~/.config/fish/completions/waybill.fish

Ids of pipelines, destinations and notifiers come from the file that --config names on the line that is being completed, or from the daemon of --to or WAYBILL_URL.`,
    )
    .action(async (shell: string) => exitWith((await import('./complete.ts')).printScript(shell)));
  command
    .command('words', { hidden: true })
    .description('list completions of the last word')
    .argument('[words...]')
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: string[]) =>
      exitWith((await import('./complete.ts')).printCandidates(program(), words)),
    );
  return command;
}
