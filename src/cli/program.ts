import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { completionCommand } from './commands/completion/command.ts';
import { configCommand } from './commands/config/command.ts';
import { initCommand } from './commands/init/command.ts';
import { inspectCommand } from './commands/inspect/command.ts';
import { notifyCommand } from './commands/notify/command.ts';
import { packCommand } from './commands/pack/command.ts';
import { pipelinesCommand } from './commands/pipelines/command.ts';
import { publishCommand } from './commands/publish/command.ts';
import { pruneCommand } from './commands/prune/command.ts';
import { pushCommand } from './commands/push/command.ts';
import { reconcileStateCommand } from './commands/reconcile-state/command.ts';
import { releasesCommand } from './commands/releases/command.ts';
import { reloadCommand } from './commands/reload/command.ts';
import { runCommand } from './commands/run/command.ts';
import { runsCommand } from './commands/runs/command.ts';
import { sceneMapCommand } from './commands/scene-map/command.ts';
import { serveCommand } from './commands/serve/command.ts';
import { unpublishCommand } from './commands/unpublish/command.ts';
import { validateCommand } from './commands/validate/command.ts';
import { verifyCommand } from './commands/verify/command.ts';
import { weatherCommand } from './commands/weather/command.ts';
import { workerCommand } from './commands/worker/command.ts';
import { columnsOf, tolerateBrokenPipes, writeNow } from './standard-streams.ts';

/** By name, in the order of the help. Each loads what it needs when it runs. */
const commands: Readonly<Record<string, () => Command>> = {
  publish: publishCommand,
  init: initCommand,
  run: runCommand,
  validate: validateCommand,
  inspect: inspectCommand,
  verify: verifyCommand,
  'reconcile-state': reconcileStateCommand,
  prune: pruneCommand,
  unpublish: unpublishCommand,
  releases: releasesCommand,
  pack: packCommand,
  push: pushCommand,
  runs: runsCommand,
  pipelines: pipelinesCommand,
  serve: serveCommand,
  weather: weatherCommand,
  worker: workerCommand,
  reload: reloadCommand,
  notify: notifyCommand,
  config: configCommand,
  'scene-map': sceneMapCommand,
};

/**
 * The program with all commands, their flags and help.
 *
 * @param argv The words after `waybill`. Where the first of them is the name of a command, the others are not
 *   made: each start would pay for all their options.
 */
export function makeProgram(argv: readonly string[] = []): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };

  const isJson = asksForJson(argv);
  const program = new Command('waybill')
    .description(
      'Publishes bundles of files to destinations with a managed catalog, from the command line or as a daemon.',
    )
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .option('--no-color', 'no colours, whatever the terminal')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => writeNow(1, text),
      writeErr: (text) => writeNow(2, text),
      // A usage error is then printed as a document (`main.ts`).
      outputError: (text, write) => (isJson ? undefined : write(restyled(text))),
      getOutHelpWidth: () => columnsOf(1),
      getErrHelpWidth: () => columnsOf(2),
      // The help has none, and to ask a stream makes it.
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .hook('preAction', (_, command) => {
      tolerateBrokenPipes();
      command.setOptionValue('color', takesColour(program));
      // Here and not as defaults, so that the help does not list a default for every switch.
      for (const option of command.options)
        if (option.isBoolean() && command.getOptionValue(option.attributeName()) === undefined)
          command.setOptionValue(option.attributeName(), false);
    })
    .showSuggestionAfterError()
    .showHelpAfterError(isJson ? false : 'next   waybill <command> --help shows what it takes')
    .exitOverride()
    .addHelpText(
      'after',
      `
Exit codes: 0 done, 1 something failed (a destination, a validation), 2 usage, configuration or secrets.
Data goes to stdout; diagnostics and progress go to stderr.`,
    );

  const [name = ''] = argv;
  const asked = Object.hasOwn(commands, name) ? commands[name] : undefined;
  for (const make of asked === undefined ? Object.values(commands) : [asked]) program.addCommand(make());
  if (asked === undefined) program.addCommand(completionCommand(() => program));
  for (const group of program.commands)
    for (const each of [group, ...group.commands]) each.copyInheritedSettings(program);
  return program;
}

/** Whether colours are wanted, as far as the command line says. */
export function takesColour(program: Command): boolean {
  return program.opts<{ color: boolean }>().color;
}

/** Whether the arguments ask for JSON. They are searched because a refused command line has no options. */
export function asksForJson(argv: readonly string[]): boolean {
  return argv.some(
    (each, at) => each === '--format=json' || (each === '--format' && argv[at + 1] === 'json'),
  );
}

/** Gives commander's errors the form of all others. */
function restyled(text: string): string {
  return text.replace(/^error: /, 'error  ').replace(/^\((Did you mean .*)\)$/m, 'next   $1');
}
