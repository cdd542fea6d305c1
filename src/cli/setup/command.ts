import { Argument, Command, Option } from 'commander';
import type { Output } from '../output/output.ts';

/*
 * Defines commands. A single table describes the arguments and options of a command, and everything else is
 * derived from it: the parser, the help, the completions, the manual page, and the type of the parsed
 * options. Since this is loaded in order to print help, it may only import commander.
 */

/** An option or an argument (`<file>`, `[file...]`). `T` is the type of its value. */
export interface Input<T> {
  flags: string;
  about: string;
  isMandatory?: boolean;
  choices?: readonly string[];
  fallback?: T;
  /** How to describe the default value in the help, if it is not a simple value. */
  fallbackText?: string;
  parse?: (text: string, before: T | undefined) => T;
  /** The environment variable that is used if the option is missing. */
  env?: string;
  /** The key of an option that cannot be combined with this one. */
  conflicts?: string;
  /** Never set. It only exists to carry the type. */
  type?: () => T;
}

type ValueOf<I> = I extends Pick<Input<infer T>, 'type'> ? T : never;
type OptionalKeys<I> = { [K in keyof I]: undefined extends ValueOf<I[K]> ? K : never }[keyof I];

/** The type of a command's parsed options and arguments. */
export type OptionsOf<I> = { [K in Exclude<keyof I, OptionalKeys<I>>]: ValueOf<I[K]> } & {
  [K in OptionalKeys<I>]?: ValueOf<I[K]>;
} & { color: boolean };

/** A switch. It is false by default, but true if it is called `--no-x`. */
export const flag = (flags: string, about: string, conflicts?: string): Input<boolean> =>
  conflicts === undefined ? { flags, about } : { flags, about, conflicts };

export const optional = (flags: string, about: string): Input<string | undefined> => ({ flags, about });

/** An option or argument that must be given. */
export const required = (flags: string, about: string): Input<string> => ({
  flags,
  about,
  isMandatory: true,
});

export const defaulted = (flags: string, about: string, fallback: string): Input<string> => ({
  flags,
  about,
  fallback,
});

/** An option that can be given several times. */
export const repeatable = (flags: string, about: string): Input<string[] | undefined> => ({
  flags,
  about,
  parse: (value, before) => [...(before ?? []), value],
});

/** An argument for all of the remaining words. */
export const rest = (flags: string, about: string): Input<string[]> => ({ flags, about });

export const choice = <const T extends string>(
  flags: string,
  about: string,
  choices: readonly T[],
): Input<T | undefined> => ({ flags, about, choices });

export const choiceWithDefault = <const T extends string>(
  flags: string,
  about: string,
  choices: readonly T[],
  fallback: NoInfer<T>,
  fallbackText?: string,
): Input<T> => ({ flags, about, choices, fallback, fallbackText });

/** How a command handles SIGHUP, SIGINT and SIGTERM. */
export type Signals =
  /** The process ends immediately. For commands that only read. */
  | 'exit'
  /** The first one aborts `signal`, so that the command can clean up. */
  | 'abort'
  /** Nothing, because the command handles signals itself. */
  | 'own';

export interface Description<I> {
  name: string;
  about: string;
  inputs: I;
  /** Text to print after the options. */
  help?: string;
  /** The default is `exit`. */
  signals?: Signals | ((options: OptionsOf<I>) => Signals);
  /** Whether the command only prints, so that it ends once nothing reads its output. */
  onlyPrints?: boolean;
}

/** The environment that a command runs in. */
export interface Io {
  output: Output;
  /** Aborted by these signals if the command asks for it. */
  signal: AbortSignal;
}

/** Runs a command and returns the exit code. Throws `WaybillError`. */
type CommandHandler<I> = (options: OptionsOf<I>, io: Io) => Promise<number>;

/** Returns the description as it is. This lets the compiler check and infer its type. */
export const described = <const I>(description: Description<I>): Description<I> => description;

export type OptionsFor<D> = D extends Description<infer I> ? OptionsOf<I> : never;

/** A command in the list of commands. It is only created if necessary. */
export interface CommandEntry {
  name: string;
  make: () => Command;
}

/** @param load Imports the module of the command. Only called when the command runs. */
export function command<I>(
  description: Description<I>,
  load: () => Promise<CommandHandler<I>>,
): CommandEntry {
  return { name: description.name, make: () => makeCommand(description, load) };
}

export function commandGroup({ name, make }: CommandEntry, members: readonly CommandEntry[]): CommandEntry {
  const group = (): Command => {
    const made = make();
    for (const member of members) made.addCommand(member.make());
    return made;
  };
  return { name, make: group };
}

/** A command that does nothing except contain subcommands. */
export const heading = (name: string, about: string): CommandEntry => ({
  name,
  make: () => new Command(name).description(about),
});

/** Joins the lines of each paragraph, so that it can be wrapped at any width. Lists and examples stay. */
function unbroken(help: string): string {
  return help
    .split('\n\n')
    .map((paragraph) => (/^ /m.test(paragraph) ? paragraph : paragraph.replaceAll('\n', ' ')))
    .join('\n\n');
}

function makeCommand<I>(
  { name, about, inputs, help, signals = 'exit', onlyPrints = false }: Description<I>,
  load: () => Promise<CommandHandler<I>>,
): Command {
  const made = new Command(name).description(about);
  const words: string[] = [];
  for (const [key, input] of Object.entries(inputs as Readonly<Record<string, Input<unknown>>>))
    if (input.flags.startsWith('-')) made.addOption(optionOf(input));
    else {
      made.addArgument(argumentOf(input));
      words.push(key);
    }
  if (help !== undefined) made.addHelpText('after', `\n${unbroken(help)}`);
  return made.action(async (...args: unknown[]) => {
    const named = Object.fromEntries(words.map((key, index) => [key, args[index]]));
    const empty = words.findIndex((key) => [named[key]].flat().includes(''));
    if (empty !== -1) throw await emptyArgument(made.registeredArguments[empty]);
    const options = { ...made.optsWithGlobals(), ...named } as OptionsOf<I> & { format?: string };
    const [handle, { makeOutput }, { finishWithoutReader }, { exitOnSignal, abortOnSignal }] =
      await Promise.all([
        load(),
        import('../output/output.ts'),
        import('../output/terminal.ts'),
        import('../process/stop-signal.ts'),
      ]);
    const output = makeOutput({ json: options.format === 'json', color: options.color });
    const work = (signal: AbortSignal): Promise<number> => handle(options, { output, signal });
    const never = new AbortController().signal;
    const reaction = typeof signals === 'function' ? signals(options) : signals;
    if (reaction !== 'exit' && !onlyPrints) finishWithoutReader();
    await exitWith(
      reaction === 'abort'
        ? abortOnSignal(work)
        : reaction === 'exit'
          ? exitOnSignal(() => work(never))
          : work(never),
    );
  });
}

/** The mistake is usually an unset variable of a script. An empty path would mean the current directory. */
async function emptyArgument(argument: Argument | undefined): Promise<Error> {
  const { WaybillError } = await import('../../core/lib/errors.ts');
  const [about = ''] = (argument?.description ?? '').split(/;| \(/);
  return new WaybillError('usage', `the argument <${argument?.name() ?? ''}> is empty`, {
    hint: `give the ${about}; if it comes from a variable, check that the variable is set`,
  });
}

export async function exitWith(code: Promise<number>): Promise<void> {
  process.exitCode = await code;
}

function argumentOf({ flags, about, choices }: Input<unknown>): Argument {
  const argument = new Argument(flags, about);
  return choices === undefined ? argument : argument.choices(choices);
}

function optionOf(input: Input<unknown>): Option {
  const { flags, about, isMandatory = false, choices, fallback, fallbackText, parse, conflicts, env } = input;
  const option = new Option(flags, about).makeOptionMandatory(isMandatory);
  if (choices !== undefined) option.choices(choices);
  if (parse !== undefined) option.argParser(parse);
  if (conflicts !== undefined) option.conflicts(conflicts);
  // An empty variable counts as missing.
  if (env !== undefined && process.env[env] !== '') option.env(env);
  return fallback === undefined ? option : option.default(fallback, fallbackText);
}
