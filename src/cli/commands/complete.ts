import { readFile } from 'node:fs/promises';
import type { Command, Option } from 'commander';
import { readYaml } from '../../core/config/yaml-text.ts';
import { homeDirectory } from '../process/home-directory.ts';
import { urlVariable } from '../setup/command-options.ts';
import { isId, type Names } from '../setup/completion-names.ts';

/*
 * The completion scripts for shells. They pass the words before the cursor to `waybill completion words`, so
 * that completions always fit the installed version. If it prints nothing, the shell completes file names
 * instead.
 */

const bash = `_waybill() {
  local line word joins='' words=()
  COMPREPLY=()
  # bash makes words of their own of the "=" after an option and of each ":" in a URL.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if (( \${#words[@]} )) && [[ $word == : || -n $joins ]]; then
      words[\${#words[@]}-1]+=$word
    elif [[ $word != = ]]; then
      words+=("$word")
    fi
    [[ $word == : ]] && joins=1 || joins=''
  done
  [[ $word == = ]] && words+=("")
  while IFS=$'\\t' read -r line _; do
    COMPREPLY+=("$line")
  done < <(waybill completion words -- "\${words[@]}" 2>/dev/null)
}
complete -o default -o bashdefault -F _waybill waybill
`;

const zsh = `#compdef waybill
_waybill() {
  local -a found
  local word about
  while IFS=$'\\t' read -r word about; do
    found+=("\${word//:/\\\\:}:$about")
  done < <(waybill completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe waybill found; else _files; fi
}
compdef _waybill waybill
`;

const fish = `function __waybill_words
    set -l words (commandline -opc)[2..] (commandline -ct)
    waybill completion words -- $words 2>/dev/null
end
function __waybill_has_words
    set -l found (__waybill_words)
    test -n "$found"
end
complete -c waybill -e
complete -c waybill -n __waybill_has_words -f -a '(__waybill_words)'
`;

const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };

export async function printScript(shell: string): Promise<number> {
  process.stdout.write(scripts[shell] ?? '');
  return 0;
}

interface Completion {
  word: string;
  about: string;
}

/**
 * Prints completions for the last word, one per line, with a tab and a description after each. Prints nothing
 * if file names should be completed, since the shell does that itself. Never fails, because an error message
 * would end up on the user's command line.
 */
export async function printCandidates(program: Command, words: readonly string[]): Promise<number> {
  const names = await namesFor(words);
  for (const { word, about } of candidates(program, words, names))
    process.stdout.write(`${word}\t${about}\n`);
  return 0;
}

/** Returns completions for the last word after `waybill`. */
function candidates(program: Command, words: readonly string[], names: Names): Completion[] {
  const current = words.at(-1) ?? '';
  const place = parseCommandLine(program, words.slice(0, -1));
  const [, name, partialValue] = /^(--[\w-]+)=(.*)$/s.exec(current) ?? [];
  if (name !== undefined && partialValue !== undefined) {
    const option = optionOf(place, name);
    return option === undefined
      ? []
      : valuesOf(option, words, names)
          .filter(({ word }) => word.startsWith(partialValue))
          .map(({ word, about }) => ({ word: `${name}=${word}`, about }));
  }
  const all =
    place.pendingOption !== null
      ? valuesOf(place.pendingOption, words, names)
      : current.startsWith('-')
        ? optionsOf(place)
        : [...commandsOf(place), ...argumentsOf(place)];
  return all.filter(({ word }) => word.startsWith(current));
}

/**
 * The state of the command line before the last word: a command, and possibly an option that still needs a
 * value.
 */
interface CommandLineState {
  /** The commands from the top level to the current one. */
  path: readonly [Command, ...Command[]];
  /** The option that the last word is a value for; null if it is not a value. */
  pendingOption: Option | null;
  /** The number of the command's arguments that have been typed. */
  usedFlags: number;
}

function parseCommandLine(program: Command, words: readonly string[]): CommandLineState {
  let place: CommandLineState = { path: [program], pendingOption: null, usedFlags: 0 };
  for (const word of words) {
    if (place.pendingOption !== null) place = { ...place, pendingOption: null };
    else if (word === 'help' && commandsOf(place).length > 0) continue;
    else if (word.startsWith('-') && word !== '-') {
      const option = word.includes('=') ? undefined : optionOf(place, word);
      place = { ...place, pendingOption: option !== undefined && !option.isBoolean() ? option : null };
    } else {
      const below =
        place.usedFlags === 0 ? visible(lastOf(place)).find((each) => each.name() === word) : undefined;
      place =
        below === undefined
          ? { ...place, usedFlags: place.usedFlags + 1 }
          : { path: [...place.path, below], pendingOption: null, usedFlags: 0 };
    }
  }
  return place;
}

function lastOf({ path }: CommandLineState): Command {
  return path.at(-1) ?? path[0];
}

function visible(command: Command): readonly Command[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .filter((each) => each.name() !== 'help');
}

function commandsOf(place: CommandLineState): Completion[] {
  if (place.usedFlags > 0) return [];
  return visible(lastOf(place)).map((each) => ({ word: each.name(), about: each.description() }));
}

function argumentsOf(place: CommandLineState): Completion[] {
  const expected = lastOf(place).registeredArguments;
  const argument = expected[place.usedFlags] ?? expected.findLast(({ variadic }) => variadic);
  return (argument?.argChoices ?? []).map((word) => ({ word, about: argument?.description ?? '' }));
}

function allOptions({ path }: CommandLineState): Option[] {
  return path.toReversed().flatMap((command) => {
    const help = command.createHelp();
    return help.visibleOptions(command);
  });
}

function optionOf(place: CommandLineState, flag: string): Option | undefined {
  return allOptions(place).find(({ long, short }) => flag === long || flag === short);
}

function optionsOf(place: CommandLineState): Completion[] {
  const words = allOptions(place).flatMap(({ long, description }) =>
    typeof long === 'string' ? [{ word: long, about: description }] : [],
  );
  return words.filter(({ word }, index) => words.findIndex((other) => other.word === word) === index);
}

function valuesOf(option: Option, words: readonly string[], names: Names): Completion[] {
  if (option.argChoices !== undefined)
    return option.argChoices.map((word) => ({ word, about: option.description }));
  const chosen = valuesGiven(words, ['--pipeline', '-p']);
  const pipelines = names.pipelines.filter(({ id }) => chosen.length === 0 || chosen.includes(id));
  const known: Readonly<Record<string, Completion[]>> = {
    pipeline: names.pipelines.map(({ id }) => ({ word: id, about: 'pipeline' })),
    destination: pipelines.flatMap(({ id, destinations }) =>
      destinations.map((word) => ({ word, about: `destination of ${id}` })),
    ),
    notifier: names.notifiers.map((word) => ({ word, about: 'notifier' })),
  };
  const found = known[option.name()] ?? [];
  return found.filter(({ word }, index) => found.findIndex((other) => other.word === word) === index);
}

/** Returns the values of an option that have already been typed. */
function valuesGiven(words: readonly string[], flags: readonly string[]): string[] {
  return words.slice(0, -1).flatMap((word, index, all) => {
    const [flag = '', value] = word.split('=', 2);
    if (value !== undefined) return flags.includes(flag) ? [value] : [];
    const next = all[index + 1];
    return flags.includes(word) && next !== undefined ? [next] : [];
  });
}

/**
 * Returns the ids that the command line can refer to. They come from the file after `--config`, or from the
 * daemon after `--to` or in `WAYBILL_URL`.
 */
async function namesFor(words: readonly string[]): Promise<Names> {
  const file = valuesGiven(words, ['--config', '-c']).at(-1);
  if (file !== undefined) return namesIn(file);
  // Only an id needs the daemon: completing anything else stays fast, and sends no request.
  const isForId = ['--pipeline', '-p', '--destination', '-d'].includes(words.at(-2) ?? '');
  const isInline = /^--(pipeline|destination)=/.test(words.at(-1) ?? '');
  const to = valuesGiven(words, ['--to']).at(-1) ?? process.env[urlVariable] ?? '';
  if (to === '' || !(isForId || isInline)) return nothing;
  const { remoteNames } = await import('../setup/remote-names.ts');
  return remoteNames({ to, tokenFile: valuesGiven(words, ['--token-file']).at(-1) }).catch(() => nothing);
}

/** Ids that can be completed. */
const nothing: Names = { pipelines: [], notifiers: [] };

/**
 * Reads the ids in a configuration file, even if it is invalid. Returns none if the file does not exist or is
 * not YAML. `~/` is expanded here, because the shell does not do that while a line is being edited.
 */
async function namesIn(file: string): Promise<Names> {
  try {
    const read = readYaml(await readFile(file.replace(/^~(?=\/)/, homeDirectory())));
    return read.ok ? namesOf(read.yaml.value) : nothing;
  } catch {
    return nothing;
  }
}

function namesOf(document: unknown): Names {
  const pipelines = itemsOf(document, 'pipelines').flatMap((pipeline) =>
    idsOf([pipeline]).map((id) => ({ id, destinations: idsOf(itemsOf(pipeline, 'destinations')) })),
  );
  return { pipelines, notifiers: idsOf(itemsOf(document, 'notifiers')) };
}

function itemsOf(value: unknown, key: string): unknown[] {
  const list = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : null;
  return Array.isArray(list) ? list : [];
}

/** Skips invalid ids, because a shell might treat some of their characters specially. */
function idsOf(items: readonly unknown[]): string[] {
  return items.flatMap((item) => {
    const id = typeof item === 'object' && item !== null && 'id' in item ? item.id : undefined;
    return isId(id) ? [id] : [];
  });
}
