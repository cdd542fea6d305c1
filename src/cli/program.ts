import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { Command, type OutputConfiguration } from 'commander';
import { completionCommand } from './commands/completion.ts';
import { commandTable } from './commands/table.ts';
import { columnsOf, hangingIndent, tolerateBrokenPipes, wrapLines, writeNow } from './output/terminal.ts';
import { usageError } from './usage-error.ts';

/**
 * Creates the command line program, with all commands, options and help texts.
 *
 * @param argv The arguments after `waybill`. If the first one is the name of a command, only that command is
 *   created, so that the program does not have to create the options of all the others at every start.
 */
export function makeProgram(argv: readonly string[] = []): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };

  const program = new Command('waybill');
  program
    .description(
      'Publishes directories to web servers, SFTP servers and buckets, and can roll back. Changes only its own files.',
    )
    .version(version, '--version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .option('--no-color', 'print without colors')
    .configureHelp({ showGlobalOptions: true, subcommandTerm: termOf })
    .configureOutput(outputOf(program, argv))
    .hook('preAction', (_, command) => {
      tolerateBrokenPipes();
      // Do not use commander's defaults for this. Otherwise, the help would mention a default for every
      // switch.
      for (const option of command.options)
        if (option.isBoolean() && command.getOptionValue(option.attributeName()) === undefined)
          command.setOptionValue(option.attributeName(), false);
    })
    .showSuggestionAfterError()
    .exitOverride()
    .addHelpText(
      'after',
      `
Examples:
  waybill publish ./site /srv/www     publish a directory
  waybill init uploads                write a configuration for a daemon
  waybill serve --config waybill.yml  run it
  waybill push ./site --to URL        publish through it

Data goes to stdout; diagnostics and progress go to stderr.`,
    )
    .addHelpText('afterAll', ({ command }) => (statesExitCodes(command) ? '' : exitCodesText));

  const [name = ''] = argv;
  const only = Object.values(commandTable)
    .flat()
    .find((entry) => entry.name === name);
  if (only !== undefined) program.addCommand(only.make());
  else {
    for (const [heading, members] of Object.entries(commandTable))
      for (const { make } of members) program.addCommand(make().helpGroup(heading));
    program.addCommand(completionCommand(() => program).helpGroup('Other:'));
    program.addHelpCommand(
      new Command('help').description(aboutHelp).argument('[command]').helpGroup('Other:'),
    );
  }
  for (const group of program.commands) {
    if (group.commands.length > 0) group.helpCommand('help [command]', aboutHelp);
    for (const each of [group, ...group.commands]) each.copyInheritedSettings(program);
  }
  return program;
}

/** Prints help and usage errors without creating a stream. */
function outputOf(program: Command, argv: readonly string[]): OutputConfiguration {
  const isJson = asksForJson(argv);
  return {
    writeOut: (text) => writeNow(1, wrapLines(text, columnsOf(1))),
    writeErr: (text) => writeNow(2, text),
    // In that case, `main.ts` prints the usage error as a document.
    outputError(text, write) {
      if (isJson) return;
      const { message, hint } = usageError(text, program, argv);
      const width = columnsOf(2, Infinity);
      write(wrapLines(`error  ${message}\nnext   ${hint}\n`, width, hangingIndent(width)));
    },
    getOutHelpWidth: () => columnsOf(1),
    getErrHelpWidth: () => columnsOf(2),
    // The help has no colors. Checking whether the terminal supports them would create a stream.
    getOutHasColors: () => false,
    getErrHasColors: () => false,
  };
}

/** Reports whether the command line allows colors in the output. */
export function takesColour(program: Command): boolean {
  return program.opts<{ color: boolean }>().color;
}

/**
 * Reports whether JSON output was requested. Looks at the arguments directly, because there are no parsed
 * options if the command line is invalid.
 */
export function asksForJson(argv: readonly string[]): boolean {
  return argv.some(
    (each, at) => each === '--format=json' || (each === '--format' && argv[at + 1] === 'json'),
  );
}

const aboutHelp = 'print the help of a command';

const exitCodesText =
  '\nExit codes: 0 done or nothing to do, 1 something failed, 2 the command, configuration, a secret, token or URL is invalid: nothing was started.';

/** Reports whether the help of a command describes its exit codes. */
function statesExitCodes(command: Command): boolean {
  return /exit codes?\b/i.test(textAfterHelp(command));
}

export function textAfterHelp(command: Command): string {
  let text = '';
  const write = (more: string): void => void (text += more);
  // Commander emits an event to collect these texts. According to its types, a command is not an emitter,
  // hence the cast.
  (command as unknown as EventEmitter).emit('afterHelp', { error: false, command, write });
  return text.trim();
}

/** Returns only the name in the program's list. A group's list includes arguments. */
function termOf(command: Command): string {
  return command.parent?.parent === null ? command.name() : `${command.name()} ${command.usage()}`;
}
