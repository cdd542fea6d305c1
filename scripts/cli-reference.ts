import type { Command, Help, Option } from 'commander';
import { wrapLines } from '../src/cli/output/terminal.ts';
import { makeProgram, textAfterHelp } from '../src/cli/program.ts';

/** Options with the same text in at least this many commands are described once, above all commands. */
const minCommonUses = 2;

/** The page lists the commands without this option, because nearly all have it. */
const usualOption = '--format';

/** Returns all commands that can be run. Leaves out groups such as `runs`. */
function commandsOf(command: Command): Command[] {
  const isProgram = command.parent === null;
  const below = command
    .createHelp()
    .visibleCommands(command)
    .filter((each) => each.name() !== 'help');
  const acts = !isProgram && (below.length === 0 || command.options.length > 0);
  return [...(acts ? [command] : []), ...below.flatMap(commandsOf)];
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** Generates the reference in `docs/cli.md` from the options and help texts of each command. */
function cliReference(): string {
  const program = makeProgram();
  const commands = commandsOf(program);
  const helper = program.createHelp();
  helper.prepareContext({ helpWidth: 98 });
  const rowOf = (option: Option): string => `| \`${option.flags}\` | ${helper.optionDescription(option)} |`;
  const uses = new Map<string, number>();
  for (const row of commands.flatMap((command) => command.options.map(rowOf)))
    uses.set(row, (uses.get(row) ?? 0) + 1);
  const isFrequent = (row: string): boolean => (uses.get(row) ?? 0) >= minCommonUses;
  // If an option has several frequent texts, the table has the most frequent one, and those of one group.
  const isMostFrequent = (row: string): boolean =>
    [...uses].every(([other, count]) => flagsOf(other) !== flagsOf(row) || count <= (uses.get(row) ?? 0));
  const groupOf = (row: string): string => {
    const users = commands.filter(({ options }) => options.some((option) => rowOf(option) === row));
    const [first, ...others] = users.map(({ parent }) => parent);
    return first?.parent && others.every((parent) => parent === first) ? first.name() : '';
  };
  const rows = [...uses.keys()].filter(isFrequent);
  const common = new Map(
    rows.flatMap((row): [string, string][] => {
      const group = isMostFrequent(row) ? '' : groupOf(row);
      if (group === '') return isMostFrequent(row) ? [[row, row]] : [];
      return [[row, row.replace('` |', `\` of \`${group}\` |`)]];
    }),
  );
  const isCommon = (option: Option): boolean => common.has(rowOf(option));
  const without = commands
    .filter(({ options }) => !options.some(({ long }) => long === usualOption))
    .map(nameOf);
  return [
    `Every command has \`--help\`, \`--version\` and \`--no-color\`. All but ${without.map((name) => `\`${name.replace('waybill ', '')}\``).join(', ')} have \`${usualOption}\`.`,
    ['| option | meaning |', '| --- | --- |', ...common.values()].join('\n'),
    ...commands.map((command) => section(command, helper, isCommon)),
  ].join('\n\n');
}

function flagsOf(row: string): string | undefined {
  return row.split('`')[1];
}

function section(command: Command, helper: Help, isCommon: (option: Option) => boolean): string {
  const common = command.options
    .filter((option) => isCommon(option) && option.long !== usualOption)
    .map((option) => `\`${option.long ?? option.flags}\``);
  const items = [
    ...helper
      .visibleArguments(command)
      .map((each) => [each.name(), helper.argumentDescription(each)] as const)
      .filter(([name, text]) => !isEvident(text, [...name.split('_'), command.name()])),
    ...command.options
      .filter((option) => !option.hidden && !isCommon(option))
      .map((option) => [option.flags, helper.optionDescription(option)]),
  ] as [string, string][];
  const termWidth = Math.max(...items.map(([term]) => term.length));
  const list = items.map(([term, text]) => helper.formatItem(term, termWidth, text, helper)).join('\n');
  const hasArguments = command.registeredArguments.length > 0;
  const usage = hasArguments ? helper.commandUsage(command).replace(' [options]', '') : '';
  const block = [usage, list, helpTextOf(command)].filter((part) => part !== '');
  return [
    `### \`${nameOf(command)}\``,
    `${sentence(helper.commandDescription(command))}${common.length === 0 ? '' : ` Common: ${common.join(', ')}.`}`,
    ...(block.length === 0 ? [] : [`\`\`\`\n${block.join('\n\n')}\n\`\`\``]),
  ].join('\n\n');
}

/** Reports whether the text only repeats these words, such as `id of the run`. */
function isEvident(text: string, names: readonly string[]): boolean {
  return text.split(' ').every((word) => ['id', 'name', 'of', 'the', 'to', ...names].includes(word));
}

/** Returns the text below the options, without the exit codes: the page has a table of them. */
function helpTextOf(command: Command): string {
  const text = textAfterHelp(command).replace(/(^|\n\n)Exit codes:.*?(?=\n\n|$)/s, '');
  return wrapLines(text.trim(), 80);
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

const begin = '<!-- made by `npm run generate` -->';

/** Replaces the reference at the end of the page. Everything before it is written by hand. */
export async function withCliReference(page: string): Promise<string> {
  const [written] = page.split(begin);
  const { format, resolveConfig } = await import('prettier');
  const options = await resolveConfig('docs/cli.md');
  return format(`${written}${begin}\n\n${cliReference()}\n`, { ...options, parser: 'markdown' });
}
