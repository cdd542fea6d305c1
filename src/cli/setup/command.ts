import { Argument, Command, Option } from 'commander';
import type { Output } from '../output/output.ts';

/*
 * Describes a command by a single table of its arguments and options. The parser, the help, the completions,
 * the manual page and the type of the parsed options are derived from it. It is loaded to print the help, so
 * it may import only commander.
 */

/** An argument (`<file>`, `[file...]`) or an option. `T` is the type of its parsed value. */
export interface Input<T> {
  flags: string;
  about: string;
  isMandatory?: boolean;
  choices?: readonly string[];
  fallback?: T;
  /** The default as shown in the help, if it needs words. */
  fallbackText?: string;
  parse?: (text: string, before: T | undefined) => T;
  /** The key of an option that excludes this one. */
  conflicts?: string;
  /** Never set; only carries the type. */
  type?: () => T;
}

type ValueOf<I> = I extends Pick<Input<infer T>, 'type'> ? T : never;
type OptionalKeys<I> = { [K in keyof I]: undefined extends ValueOf<I[K]> ? K : never }[keyof I];

/** A command's parsed arguments and options by their keys. */
export type OptionsOf<I> = { [K in Exclude<keyof I, OptionalKeys<I>>]: ValueOf<I[K]> } & {
  [K in OptionalKeys<I>]?: ValueOf<I[K]>;
} & { color: boolean };

/** A switch, which is false unless given. `--no-x` is true unless given. */
export const flag = (flags: string, about: string, conflicts?: string): Input<boolean> =>
  conflicts === undefined ? { flags, about } : { flags, about, conflicts };

export const optional = (flags: string, about: string): Input<string | undefined> => ({ flags, about });

/** A mandatory option, or an argument. */
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

/** A repeatable option. */
export const repeatable = (flags: string, about: string): Input<string[] | undefined> => ({
  flags,
  about,
  parse: (value, before) => [...(before ?? []), value],
});

/** An argument that takes all remaining words. */
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
): Input<T> => ({ flags, about, choices, fallback, ...(fallbackText === undefined ? {} : { fallbackText }) });

/** How a command reacts to SIGINT and SIGTERM. */
export type Signals =
  /** The command only reads, so a signal ends the process. */
  | 'exit'
  /** The first signal aborts `signal`, and the command cleans up. */
  | 'abort'
  /** The command handles signals itself. */
  | 'own';

export interface Description<I> {
  name: string;
  about: string;
  inputs: I;
  /** Printed after the options. */
  help?: string;
  /** Default: `exit`. */
  signals?: Signals | ((options: OptionsOf<I>) => Signals);
}

/** A command's environment. */
export interface Io {
  output: Output;
  /** Aborted by a signal if the description requests that. */
  signal: AbortSignal;
}

/** Returns the exit code. Throws `WaybillError`. */
export type Handler<I> = (options: OptionsOf<I>, io: Io) => Promise<number>;

/** Returns a description unchanged and checks its type. */
export const described = <const I>(description: Description<I>): Description<I> => description;

/** A described command's options. */
export type OptionsFor<D> = D extends Description<infer I> ? OptionsOf<I> : never;

/** A command that is created only if the program needs it. */
export interface Entry {
  name: string;
  make: () => Command;
}

/** `load` is called when the command runs. */
export function command<I>(description: Description<I>, load: () => Promise<Handler<I>>): Entry {
  return { name: description.name, make: () => makeCommand(description, load) };
}

/** Returns a command with subcommands. */
export function commandGroup({ name, make }: Entry, members: readonly Entry[]): Entry {
  const group = (): Command => {
    const made = make();
    for (const member of members) made.addCommand(member.make());
    return made;
  };
  return { name, make: group };
}

/** Returns a command that only has subcommands. */
export const heading = (name: string, about: string): Entry => ({
  name,
  make: () => new Command(name).description(about),
});

function makeCommand<I>(
  { name, about, inputs, help, signals = 'exit' }: Description<I>,
  load: () => Promise<Handler<I>>,
): Command {
  const made = new Command(name).description(about);
  const words: string[] = [];
  for (const [key, input] of Object.entries(inputs as Readonly<Record<string, Input<unknown>>>))
    if (input.flags.startsWith('-')) made.addOption(optionOf(input));
    else {
      made.addArgument(argumentOf(input));
      words.push(key);
    }
  if (help !== undefined) made.addHelpText('after', `\n${help}`);
  return made.action(async (...given: unknown[]) => {
    const named = Object.fromEntries(words.map((key, index) => [key, given[index]]));
    const options = { ...made.optsWithGlobals(), ...named } as OptionsOf<I> & { format?: string };
    const [handle, { makeOutput }, { endedBySignal, untilStopped }] = await Promise.all([
      load(),
      import('../output/output.ts'),
      import('../process/stop-signal.ts'),
    ]);
    const output = makeOutput({ json: options.format === 'json', color: options.color });
    const work = (signal: AbortSignal): Promise<number> => handle(options, { output, signal });
    const never = new AbortController().signal;
    const reaction = typeof signals === 'function' ? signals(options) : signals;
    await exitWith(
      reaction === 'abort'
        ? untilStopped(work)
        : reaction === 'exit'
          ? endedBySignal(() => work(never))
          : work(never),
    );
  });
}

/** Sets the process's exit code to a command's result. */
export async function exitWith(code: Promise<number>): Promise<void> {
  process.exitCode = await code;
}

function argumentOf({ flags, about, choices }: Input<unknown>): Argument {
  const argument = new Argument(flags, about);
  return choices === undefined ? argument : argument.choices(choices);
}

function optionOf(input: Input<unknown>): Option {
  const { flags, about, isMandatory = false, choices, fallback, fallbackText, parse, conflicts } = input;
  const option = new Option(flags, about).makeOptionMandatory(isMandatory);
  if (choices !== undefined) option.choices(choices);
  if (parse !== undefined) option.argParser(parse);
  if (conflicts !== undefined) option.conflicts(conflicts);
  return fallback === undefined ? option : option.default(fallback, fallbackText);
}
