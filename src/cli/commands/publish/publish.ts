import { once } from 'node:events';
import { existsSync, readFileSync, realpathSync, type Stats, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { LoadedConfig } from '../../../core/config/load-config.ts';
import { parseConfig } from '../../../core/config/load-config.ts';
import { systemClock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { realPath } from '../../../core/lib/real-path.ts';
import { describeFileError, describeWriteError, undefinedIfAbsent } from '../../../core/lib/system-errors.ts';
import { plural, shellQuoted } from '../../../core/lib/text.ts';
import { currentUserName } from '../../../core/lib/unsafe-path.ts';
import type { RunResult } from '../../../core/publish/results/result.ts';
import { homeDirectory } from '../../process/home-directory.ts';
import { openPublished } from '../../process/open-browser.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { chooseDestinations, prepare } from '../../setup/set-up.ts';
import type { publishCommand } from './commands.ts';
import {
  configurationText,
  type DestinationSettings,
  parseDestination,
  type PublishSettings,
} from './destination-argument.ts';
import { withOptionHints, withoutSelection } from './option-hints.ts';
import { runAll } from './run.ts';
import { heldBackExitCode, reportRun } from './run-text.ts';

type PublishOptions = OptionsFor<typeof publishCommand>;

/**
 * Implements `waybill publish`. Builds a configuration in memory, and then does the same as `waybill run`.
 * Throws a `usage` error before opening anything if the directory or a destination cannot be used.
 */
export async function publish(options: PublishOptions, { output, signal }: Io): Promise<number> {
  const settings = settingsOf(options);
  const text = configurationText(settings);
  const loaded = await loadFromText(text);
  if (options.force && !options.dryRun && !options.yes) await confirmForce(options.destinations.length);
  if (options.save !== undefined && saveConfig(options.save, text)) output.note(`wrote ${options.save}`);
  const begunMs = systemClock.monotonic();
  const { verbose, dryRun, force, channel, save: file } = options;
  const setUp = await prepare(loaded, { output, verbose, signal, areDirectoriesNamed: true });
  const chosen = chooseDestinations(setUp.config, {});
  const request = { dryRun, force, allowRemovals: false, channel, keepsReleases: true };
  const result = withOptionHints(await runAll({ chosen, options, setUp }, request));
  const code = reportRun(
    result,
    { output, signal },
    {
      verbose,
      begunMs,
      shown: withoutSelection(result),
      configured: `--config ${shellQuoted(file ?? 'waybill.yml')}`,
    },
  );
  if (code === heldBackExitCode && file === undefined)
    output.note('to write waybill.yml first, repeat your command with --save waybill.yml');
  if (hasNewLayout(result)) output.note(unpublishNote(file));
  if (options.open && !signal.aborted) await openPublished(urlsOf(result), output, missingUrl(options));
  return code;
}

function hasNewLayout({ pipelines }: RunResult): boolean {
  const destinations = pipelines.flatMap((pipeline) => pipeline.destinations);
  return destinations.some(({ warnings }) => warnings.some(({ code }) => code === 'layout_changed'));
}

/** The warning about the layout suggests `waybill unpublish`, which works only with a configuration. */
function unpublishNote(saved: string | undefined): string {
  return saved === undefined
    ? 'waybill unpublish needs a configuration: repeat your command with --save waybill.yml, and add --config waybill.yml to waybill unpublish'
    : `add --config ${shellQuoted(saved)} to waybill unpublish`;
}

/** Returns the URLs of everything that was published. */
function urlsOf({ pipelines }: RunResult): (string | null)[] {
  const destinations = pipelines.flatMap((pipeline) => pipeline.destinations);
  return destinations.flatMap(({ actions }) => actions.map(({ url }) => url));
}

function missingUrl({ channel }: PublishOptions): string {
  const option = channel === undefined ? '--url' : '--channel-url';
  return `no published address is known; ${option} sets it`;
}

/**
 * Loads a configuration that exists only in memory. If a value is invalid, throws a `usage` error with the
 * option that it came from. `command` is the command whose help has examples.
 */
export async function loadFromText(text: string, command = 'publish'): Promise<LoadedConfig> {
  try {
    return parseConfig(Buffer.from(text), path.resolve('waybill.yml'), { home: homeDirectory() });
  } catch (error) {
    const [first] = error instanceof WaybillError ? error.findings : [];
    if (first === undefined) throw error;
    const setting = first.pointer ?? '';
    const option = settingOptions.find(([pattern]) => pattern.test(setting))?.[1];
    const name = option ?? `the destination's ${setting.split('.').at(-1) ?? 'settings'}`;
    throw new WaybillError('usage', `${name}: ${first.message}`, {
      hint: `waybill ${command} --help has examples`,
      cause: error,
    });
  }
}

const settingOptions: readonly [RegExp, string][] = [
  [/^pipelines\[0\]\.(id|source\.id)$/, '--pipeline'],
  [/channels\..*\.public_base_url$/, '--channel-url'],
  [/\.public_base_url$/, '--url'],
  [/\.channels/, '--channel'],
  [/\.include/, '--include'],
  [/\.exclude/, '--exclude'],
  [/\.ssh_key_file$/, '--ssh-key'],
  [/\.max_rate$/, '--max-rate'],
];

function settingsOf(options: PublishOptions): PublishSettings {
  const { directory, destinations, channel, channelUrl } = options;
  const { include = [], exclude = [], links = 'refuse', ...others } = options;
  requireReleases(options);
  if (options.open && options.dryRun)
    throw new WaybillError('usage', '--open shows what was published, and --dry-run publishes nothing', {
      hint: 'leave out one of the two',
    });
  if (channelUrl !== undefined && channel === undefined)
    throw new WaybillError('usage', '--channel-url needs a channel', { hint: 'add --channel NAME' });
  const source = requireDirectory(directory);
  const parsed = destinations.map((text) => parseDestinationArgument(text, options));
  refuseOverlaps(source, parsed, destinations);
  refuseToPublish(options.save, source);
  const pipelineId = options.pipeline ?? slugOf(source);
  return { ...others, include, exclude, links, pipelineId, directory: source, destinations: parsed };
}

/** Throws a `usage` error if a channel is given without releases, because only releases have channels. */
export function requireReleases({ channel, releases }: { channel?: string; releases: boolean }): void {
  if (channel !== undefined && !releases)
    throw new WaybillError('usage', '--channel needs --releases', { hint: 'add --releases' });
}

/** Parses a destination from the command line. Throws a `usage` error if it is invalid. */
export function parseDestinationArgument(text: string, { sshKey }: { sshKey?: string }): DestinationSettings {
  return parseDestination(text, {
    workingDirectory: process.cwd(),
    userName: currentUserName(),
    sshKeyFile: sshKey === undefined ? defaultKeyFile() : path.resolve(sshKey),
  });
}

/**
 * Returns the absolute path of a directory, with all links resolved. Throws a `usage` error if it is not a
 * directory.
 */
function requireDirectory(directory: string): string {
  const found = directory === '' ? undefined : statOf(directory);
  if (found?.isDirectory() === true) return realpathSync(directory);
  const reason = found === undefined ? 'does not exist' : 'is not a directory';
  const isArchive = /\.(?:tar|tgz|tar\.\w+|zip)$/i.test(directory) && found?.isFile() === true;
  throw new WaybillError('usage', `"${directory}" ${reason}`, {
    hint: isArchive
      ? 'unpack the archive, and name the directory to publish'
      : 'name the directory to publish, and then the destination: waybill publish ./site /srv/www',
  });
}

/** Returns undefined if nothing is there. Throws a `usage` error if that cannot be found out. */
function statOf(directory: string): Stats | undefined {
  try {
    return undefinedIfAbsent(() => statSync(directory));
  } catch (error) {
    throw new WaybillError('usage', `"${directory}" cannot be read: ${describeFileError(error)}`, {
      hint: 'check the path of the directory to publish, and its permissions',
      cause: error,
    });
  }
}

/** The saved configuration has host names, user names and paths. */
function refuseToPublish(save: string | undefined, source: string): void {
  if (save === undefined || !isWithin(realPath(path.resolve(save)), source)) return;
  throw new WaybillError('usage', `the configuration "${save}" would be inside the published directory`, {
    hint: 'name a file outside of that directory with --save',
  });
}

function refuseOverlaps(
  source: string,
  destinations: readonly DestinationSettings[],
  texts: readonly string[],
): void {
  destinations.forEach(({ id, settings }, index) => {
    const text = texts[index] ?? '';
    const first = destinations.findIndex((one) => one.id === id);
    if (first < index)
      throw new WaybillError('usage', `"${texts[first] ?? ''}" and "${text}" are the same destination`, {
        hint: 'name each destination once',
      });
    if (settings['backend'] !== 'local') return;
    const target = realPath(String(settings['path']));
    const other = destinations.findIndex(
      (each, at) => at < index && each.settings['backend'] === 'local' && areNested(target, each),
    );
    if (other >= 0)
      throw new WaybillError(
        'usage',
        `one of the destinations "${texts[other] ?? ''}" and "${text}" is inside the other`,
        { hint: 'choose separate directories' },
      );
    if (isWithin(target, source))
      throw new WaybillError(
        'usage',
        target === source
          ? `the destination "${text}" is the published directory itself`
          : `the destination "${text}" is inside the published directory "${source}"`,
        { hint: 'choose a destination outside of that directory' },
      );
    if (isWithin(source, target))
      throw new WaybillError(
        'usage',
        `the published directory "${source}" is inside the destination "${text}"`,
        { hint: `choose a destination that does not contain "${source}"` },
      );
  });
}

function areNested(target: string, { settings }: DestinationSettings): boolean {
  const other = realPath(String(settings['path']));
  return isWithin(target, other) || isWithin(other, target);
}

function isWithin(inner: string, outer: string): boolean {
  const relative = path.relative(outer, inner);
  return relative === '' || (relative !== '..' && !relative.startsWith('../') && !path.isAbsolute(relative));
}

/** Makes a pipeline id from the name of the directory: `My Site` becomes `my-site`. */
function slugOf(directory: string): string {
  const slug = path
    .basename(directory)
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^[-_]+|-+$/g, '')
    .slice(0, 64);
  return slug === '' ? 'site' : slug;
}

/** Returns one of the private keys that OpenSSH tries by default. Not needed if there is an SSH agent. */
function defaultKeyFile(): string | undefined {
  if ((process.env['SSH_AUTH_SOCK'] ?? '') !== '') return undefined;
  return ['id_ed25519', 'id_ecdsa', 'id_rsa']
    .map((name) => path.join(homeDirectory(), '.ssh', name))
    .find((file) => existsSync(file));
}

/**
 * Asks for confirmation before `--force` deletes anything. Throws a `usage` error if the answer is no, if the
 * user presses Ctrl-C or Ctrl-D, or if there is no terminal to ask on.
 */
export async function confirmForce(destinations: number): Promise<void> {
  const where = destinations === 1 ? 'the destination' : plural(destinations, 'destination');
  if (process.stdin.isTTY && process.stderr.isTTY) {
    const answer = await ask(`--force deletes everything else at ${where}. Continue? [y/N] `);
    if (/^y(es)?$/i.test(answer.trim())) return;
  }
  throw new WaybillError('usage', `--force deletes everything else at ${where}, and needs a confirmation`, {
    hint: 'check the plan with --dry-run, then add --yes',
  });
}

/** Asks a question on the terminal. Returns `''` if the user presses Ctrl-C or Ctrl-D. */
async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Both keys close the terminal. Depending on the release of Node.js, the question then fails or never ends.
  const closed = once(terminal, 'close').then(() => null);
  const answer = await Promise.race([terminal.question(question).catch(() => null), closed]);
  if (answer === null) process.stderr.write('\n');
  terminal.close();
  return answer ?? '';
}

/** Writes the configuration. Returns false if the file has exactly this text already. */
function saveConfig(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o644 });
    return true;
  } catch (error) {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
    if (isThere && textIn(file) === text) return false;
    const reason = isThere ? 'it exists already, with other content' : describeWriteError(error);
    throw new WaybillError('usage', `the configuration cannot be saved as "${file}": ${reason}`, {
      hint: 'name another file; nothing was published',
      cause: error,
    });
  }
}

/** Returns the text of a file, or null if it cannot be read. */
function textIn(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
