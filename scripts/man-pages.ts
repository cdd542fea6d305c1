import type { Argument, Command, Option } from 'commander';
import { makeProgram, textAfterHelp } from '../src/cli/program.ts';

/** Generates manual pages from the help of the commands: `waybill.1`, and one for each subcommand. */
export function manPages(): { name: string; text: string }[] {
  const program = makeProgram();
  const commands = below(program).filter((command) => command.name() !== 'help');
  return [program, ...commands].map((command) => ({
    name: `${titleOf(command)}.1`,
    text: page(
      command,
      [program, ...commands].filter((other) => other !== command),
    ),
  }));
}

function page(command: Command, others: readonly Command[]): string {
  const title = titleOf(command);
  const commands = below(command);
  const isProgram = command.parent === null;
  const parts = [
    `.TH ${title.toUpperCase()} 1 "" "waybill" "waybill manual"`,
    '.SH NAME',
    `${plain(title)} \\- ${plain(command.description())}`,
    '.SH SYNOPSIS',
    ...(commands.length === 0 || takesArguments(command) ? [synopsis(command)] : []),
    ...commands.flatMap((each, index) => [
      ...(index > 0 || takesArguments(command) ? ['.br'] : []),
      isProgram ? `.B ${plain(pathOf(each))}` : synopsis(each),
    ]),
    ...details(command, '.SH'),
    ...(isProgram
      ? commandList(commands)
      : commands.flatMap((each) => [...section(each), ...details(each, '.SS')])),
    '.SH EXIT STATUS',
    '0: done or nothing to do. 1: something failed. 2: the command, configuration, a secret, token or URL is invalid; nothing was started.',
    '129, 130 and 143: stopped by SIGHUP, SIGINT and SIGTERM.',
    '.SH SEE ALSO',
    others.map((other) => `.BR ${plain(titleOf(other))} (1)`).join(',\n'),
  ];
  return `${parts.filter((part) => part !== '').join('\n')}\n`;
}

function commandList(commands: readonly Command[]): string[] {
  return [
    '.SH COMMANDS',
    ...commands.flatMap((each) => ['.TP', `.BR ${plain(titleOf(each))} (1)`, plain(each.description())]),
  ];
}

function section(command: Command): string[] {
  return [`.SH ${plain(pathOf(command).toUpperCase())}`, plain(command.description())];
}

function details(command: Command, heading: '.SH' | '.SS'): string[] {
  const listed = command.createHelp();
  const items = [
    ...listed.visibleArguments(command).map(argument),
    ...listed.visibleOptions(command).map((each) => option(each)),
  ];
  const after = textAfterHelp(command);
  return [
    ...(items.length === 0 ? [] : [`${heading} OPTIONS`, ...items]),
    ...(after === '' ? [] : [`${heading} DETAILS`, ...after.split('\n\n').flatMap(paragraph)]),
  ];
}

/** Lists and examples keep their lines. */
function paragraph(text: string, index: number): string[] {
  const lines = text.includes('\n') ? ['.nf', plain(text), '.fi'] : [plain(text)];
  return index === 0 ? lines : ['.PP', ...lines];
}

function argument(each: Argument): string {
  return `.TP\n.I ${plain(each.name())}\n${plain(sentences([each.description, choices(each.argChoices)]))}`;
}

function option(each: Option): string {
  const value: unknown = each.defaultValue;
  const initial =
    typeof value === 'string' || typeof value === 'number'
      ? `Default: ${each.defaultValueDescription ?? value}`
      : '';
  const about = sentences([each.description, choices(each.argChoices), initial]);
  return `.TP\n.B ${plain(each.flags)}\n${plain(about)}`;
}

function sentences(parts: readonly string[]): string {
  const said = parts.filter((part) => part !== '');
  return said.length > 1 ? `${said.join('. ')}.` : said.join('');
}

function choices(values: readonly string[] | undefined): string {
  return values === undefined ? '' : `One of ${values.join(', ')}`;
}

function synopsis(command: Command): string {
  return `.B ${plain(pathOf(command))}\n${plain(command.usage())}`;
}

function takesArguments(command: Command): boolean {
  return (
    below(command).length === 0 || command.registeredArguments.length > 0 || command.name() === 'weather'
  );
}

function below(command: Command): Command[] {
  return [...command.createHelp().visibleCommands(command)].filter((each) => each.name() !== 'help');
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

function titleOf(command: Command): string {
  return pathOf(command).replaceAll(' ', '-');
}

/** Escapes text for roff, so that no text is parsed as a command. */
function plain(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^(?=[.'])/gm, '\\&');
}
