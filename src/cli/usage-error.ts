import type { Argument, Command, Option } from 'commander';
import { nearest, shellQuoted } from '../core/lib/text.ts';

/** Explains the usage errors of commander in the words of all other errors. */

interface UsageError {
  message: string;
  hint: string;
}

/** Returns the explanation of a usage error. `argv` contains the words after `waybill`. */
export function usageError(text: string, program: Command, argv: readonly string[]): UsageError {
  const { words, command } = namedCommand(program, argv);
  const [first = '', second = ''] = text
    .replace(/^error: /, '')
    .trim()
    .split('\n');
  const [, guess] = /^\(Did you mean (.*)\?\)$/.exec(second) ?? [];
  const about = { program, command, words, argv, guess };
  for (const [pattern, explain] of explanations) {
    const found = pattern.exec(first);
    if (found !== null) {
      const [, name = '', value = '', expected = ''] = found;
      return { hint: helpOf(about), ...explain(about, name, value, expected) };
    }
  }
  return { message: first, hint: helpOf(about) };
}

interface UsageContext {
  program: Command;
  /** The command that the arguments name, and its words. */
  command: Command;
  words: string;
  argv: readonly string[];
  /** The name that commander suggests. */
  guess: string | undefined;
}

type Explain = (
  about: UsageContext,
  name: string,
  value: string,
  expected: string,
) => Partial<UsageError> & { message: string };

const explanations: readonly [RegExp, Explain][] = [
  [
    /^missing required argument '(.+)'$/,
    (about, name) => {
      const argument = about.command.registeredArguments.find((each) => each.name() === name);
      return {
        message: `missing argument <${name}>: ${oneOf(argument) ?? argument?.description ?? ''}`,
        hint:
          name === 'run_id'
            ? commandSynopsis(about, `${about.words.replace(/\w+$/, 'list')} lists the ids`)
            : commandSynopsis(about),
      };
    },
  ],
  [
    /^required option '(.+)' not specified$/,
    (about, flags) => {
      const option = optionOf(about.command, flags);
      return {
        message: `missing option ${longOf(flags)}: ${option?.description ?? ''}`,
        hint: option?.long === '--config' ? withConfig(about) : commandSynopsis(about),
      };
    },
  ],
  [
    /^option '(.+)' argument missing$/,
    ({ command }, flags) => {
      const option = optionOf(command, flags);
      return { message: `missing value of ${longOf(flags)}: ${oneOf(option) ?? option?.description ?? ''}` };
    },
  ],
  [
    /^option '(.+?)' argument '(.*)' is invalid\. (.*)$/s,
    ({ command }, flags, value, expected) =>
      invalid(longOf(flags, ''), value, expected, optionOf(command, flags)),
  ],
  [
    /^command-argument value '(.*)' is invalid for argument '(.*)'\. (.*)$/s,
    ({ command }, value, name, expected) =>
      invalid(
        `<${name}>`,
        value,
        expected,
        command.registeredArguments.find((each) => each.name() === name),
      ),
  ],
  [
    /^unknown option '(.+)'$/,
    (about, name) => ({
      message: valueOfSwitch(about, name) ?? `unknown option ${name}${didYouMeanText(about.guess)}`,
      ...(name === '--delete' ? { hint: withoutDelete } : {}),
      ...optionBeforeCommand(about, name),
    }),
  ],
  [
    /^unknown command '(.+)'$/,
    ({ command, program, guess }, name) => ({
      message: `unknown command "${name}"${didYouMeanText(guess ?? (command === program ? commandFor(name, program) : undefined))}`,
    }),
  ],
  [
    /^too many arguments(?: for '.+')?\. Expected (\d+) argument/,
    ({ command, words }, expected) => ({
      ...(command.options.some(({ long }) => long === '--pipeline') && expected === '0'
        ? { hint: `to choose a pipeline, write --pipeline ${command.args[0] ?? ''}` }
        : {}),
      message: `unexpected argument "${command.args[Number(expected)] ?? ''}": ${words} takes ${expected === '0' ? 'no arguments' : `only ${expected}`}`,
    }),
  ],
];

/** commander does not recognize a switch that has a value. */
function valueOfSwitch({ command }: UsageContext, text: string): string | null {
  const [, name] = /^(--[\w-]+)=/.exec(text) ?? [];
  const option = command.options.find(({ long }) => long === name);
  return option?.isBoolean() === true
    ? `option ${option.long ?? ''} takes no value: write it without "="`
    : null;
}

/** For users of rsync. */
const withoutDelete =
  'leave it out: publish removes its own files that the directory no longer has, and never other files';

function didYouMeanText(guess: string | undefined): string {
  return guess === undefined ? '' : `; did you mean ${guess}?`;
}

/** `expected` is the sentence of an option that has no choices, such as `Enter a number from 1 to 9.` */
function invalid(
  name: string,
  value: string,
  expected: string,
  input: Argument | Option | undefined,
): { message: string } {
  const choices = oneOf(input);
  const form =
    choices === undefined
      ? `not valid; ${expected.replace(/^./, (letter) => letter.toLowerCase()).replace(/\.$/, '')}`
      : `not ${choices}${didYouMeanText(nearest(value, input?.argChoices ?? []))}`;
  return { message: `${name}: "${value}" is ${form}` };
}

function oneOf(input: Argument | Option | undefined): string | undefined {
  const choices = input?.argChoices ?? [];
  return choices.length === 0 ? undefined : `one of ${choices.join(', ')}`;
}

function optionOf(command: Command, flags: string): Option | undefined {
  return command.options.find((each) => each.flags === flags);
}

/** Returns the long form of an option's flags, such as `--config <file>`. */
function longOf(flags: string, value = /<.*>$/.exec(flags)?.[0] ?? ''): string {
  return `${/--[\w-]+/.exec(flags)?.[0] ?? flags} ${value}`.trimEnd();
}

/** Suggests `waybill run --config c.yml` for `waybill run c.yml`. */
function withConfig(about: UsageContext): string {
  const { command, words } = about;
  const [file] = command.args;
  if (command.registeredArguments.length === 0 && file !== undefined)
    return `${words} --config ${shellQuoted(file)}`;
  return commandSynopsis(about, 'waybill init --out FILE writes a configuration');
}

/** Suggests `waybill run -c c.yml` for `waybill -c c.yml run`. */
function optionBeforeCommand({ program, command, argv }: UsageContext, name: string): Partial<UsageError> {
  if (command !== program) return {};
  const at = argv.findIndex((word) => program.commands.some((each) => each.name() === word));
  if (at < 1) return {};
  const moved = [argv[at], ...argv.slice(0, at), ...argv.slice(at + 1)];
  return {
    message: `the option ${name} is before the command`,
    hint: `write it after the command: waybill ${moved.map((word = '') => shellQuoted(word)).join(' ')}`,
  };
}

/** Names of other programs' commands, and of the commands here that do the same. */
const synonyms: Readonly<Record<string, string>> = {
  copy: 'publish',
  deploy: 'publish',
  sync: 'publish',
  upload: 'push',
  daemon: 'serve',
  start: 'serve',
  server: 'serve',
  revert: 'releases rollback',
  undo: 'releases rollback',
  status: 'inspect',
  check: 'config check',
};

/** Returns the command that a word means that is not a command itself. */
function commandFor(word: string, program: Command): string | undefined {
  const known = Object.hasOwn(synonyms, word) ? synonyms[word] : undefined;
  if (known !== undefined) return known;
  const group = program.commands.find(({ commands }) => commands.some((each) => each.name() === word));
  return group === undefined ? undefined : `${group.name()} ${word}`;
}

function namedCommand(program: Command, argv: readonly string[]): { words: string; command: Command } {
  let command = program;
  const words = [program.name()];
  for (const word of argv) {
    if (word === 'help') continue;
    const below = command.commands.find((each) => each.name() === word);
    if (below === undefined) break;
    command = below;
    words.push(word);
  }
  return { words: words.join(' '), command };
}

/**
 * Returns the shortest complete command line, such as `waybill runs show <run_id> --to <url>`. Arguments that
 * were given are in it.
 */
function commandSynopsis(
  { command, words }: UsageContext,
  more = `${words} --help has examples and all options`,
): string {
  const parts = [
    ...command.registeredArguments
      .filter(({ required }) => required)
      .map((each, index) => command.args[index] ?? `<${each.name()}${each.variadic ? '...' : ''}>`),
    ...command.options.filter(({ mandatory }) => mandatory).map(({ flags }) => longOf(flags)),
  ];
  return `${[words, ...parts].join(' ')}; ${more}`;
}

function helpOf({ command, words }: UsageContext): string {
  return `${words} --help lists ${command.commands.length > 0 ? 'the commands' : 'its arguments, options and examples'}`;
}
