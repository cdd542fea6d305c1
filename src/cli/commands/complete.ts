import type { Command, Option } from 'commander';
import { namesIn, type Names } from './completion-names.ts';

/** What may be typed, and what it is. */
export interface Candidate {
  word: string;
  about: string;
}

/**
 * Prints what may stand in place of the last word, each with a tab and what it is; nothing where it is the
 * name of a file, which shells know best. Never fails: there is nobody to tell.
 */
export async function printCandidates(program: Command, words: readonly string[]): Promise<number> {
  const names = await namesIn(configNamed(words));
  for (const { word, about } of candidates(program, words, names))
    process.stdout.write(`${word}\t${about}\n`);
  return 0;
}

/** What may stand in place of the last of the words that follow `waybill`. Pure. */
export function candidates(program: Command, words: readonly string[], names: Names): Candidate[] {
  const current = words.at(-1) ?? '';
  const place = walk(program, words.slice(0, -1));
  const [, name, begun] = /^(--[\w-]+)=(.*)$/s.exec(current) ?? [];
  if (name !== undefined && begun !== undefined) {
    const option = optionOf(place, name);
    return option === undefined
      ? []
      : valuesOf(option, words, names)
          .filter(({ word }) => word.startsWith(begun))
          .map(({ word, about }) => ({ word: `${name}=${word}`, about }));
  }
  const all =
    place.waiting !== null
      ? valuesOf(place.waiting, words, names)
      : current.startsWith('-')
        ? optionsOf(place)
        : [...commandsOf(place), ...argumentsOf(place)];
  return all.filter(({ word }) => word.startsWith(current));
}

/** Where the words before the last one lead. */
interface Place {
  /** From the program to the command. */
  path: readonly [Command, ...Command[]];
  /** The option whose value comes next, if one does. */
  waiting: Option | null;
  /** How many arguments of the command there are already. */
  given: number;
}

function walk(program: Command, words: readonly string[]): Place {
  let place: Place = { path: [program], waiting: null, given: 0 };
  for (const word of words) {
    if (place.waiting !== null) place = { ...place, waiting: null };
    else if (word.startsWith('-') && word !== '-') {
      const option = word.includes('=') ? undefined : optionOf(place, word);
      place = { ...place, waiting: option !== undefined && !option.isBoolean() ? option : null };
    } else {
      const below = place.given === 0 ? shown(last(place)).find((each) => each.name() === word) : undefined;
      place =
        below === undefined
          ? { ...place, given: place.given + 1 }
          : { path: [...place.path, below], waiting: null, given: 0 };
    }
  }
  return place;
}

function last({ path }: Place): Command {
  return path.at(-1) ?? path[0];
}

function shown(command: Command): readonly Command[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .filter((each) => each.name() !== 'help');
}

function commandsOf(place: Place): Candidate[] {
  if (place.given > 0) return [];
  return shown(last(place)).map((each) => ({ word: each.name(), about: each.description() }));
}

function argumentsOf(place: Place): Candidate[] {
  const expected = last(place).registeredArguments;
  const argument = expected[place.given] ?? expected.findLast(({ variadic }) => variadic);
  return (argument?.argChoices ?? []).map((word) => ({ word, about: argument?.description ?? '' }));
}

/** Those of the command and of the commands above it, which it shares. */
function allOptions({ path }: Place): Option[] {
  return path.toReversed().flatMap((command) => {
    const help = command.createHelp();
    return help.visibleOptions(command);
  });
}

function optionOf(place: Place, flag: string): Option | undefined {
  return allOptions(place).find(({ long, short }) => flag === long || flag === short);
}

function optionsOf(place: Place): Candidate[] {
  const words = allOptions(place).flatMap(({ long, description }) =>
    typeof long === 'string' ? [{ word: long, about: description }] : [],
  );
  return words.filter(({ word }, index) => words.findIndex((other) => other.word === word) === index);
}

function valuesOf(option: Option, words: readonly string[], names: Names): Candidate[] {
  if (option.argChoices !== undefined)
    return option.argChoices.map((word) => ({ word, about: option.description }));
  const chosen = valuesGiven(words, ['--pipeline', '-p']);
  const pipelines = names.pipelines.filter(({ id }) => chosen.length === 0 || chosen.includes(id));
  const known: Readonly<Record<string, Candidate[]>> = {
    pipeline: names.pipelines.map(({ id }) => ({ word: id, about: 'pipeline' })),
    destination: pipelines.flatMap(({ id, destinations }) =>
      destinations.map((word) => ({ word, about: `destination of ${id}` })),
    ),
    notifier: names.notifiers.map((word) => ({ word, about: 'notifier' })),
  };
  const found = known[option.name()] ?? [];
  return found.filter(({ word }, index) => found.findIndex((other) => other.word === word) === index);
}

/** What is given for an option on the line, before its last word. */
function valuesGiven(words: readonly string[], flags: readonly string[]): string[] {
  return words.slice(0, -1).flatMap((word, index, all) => {
    const [flag = '', value] = word.split('=', 2);
    if (value !== undefined) return flags.includes(flag) ? [value] : [];
    const next = all[index + 1];
    return flags.includes(word) && next !== undefined ? [next] : [];
  });
}

function configNamed(words: readonly string[]): string | undefined {
  return valuesGiven(words, ['--config', '-c']).at(-1);
}
