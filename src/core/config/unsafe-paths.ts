import { readdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { KeyPath } from '../lib/settings/check.ts';
import { type Weakness, weaknessesOf } from '../lib/unsafe-path.ts';
import type { PathUse } from '../storage/backend.ts';
import { backendOf, type StorageLocation } from '../storage/backends.ts';
import type { Config } from './config.ts';
import type { Loaded } from './load.ts';

/**
 * Limits the check for files and directories of a configuration that other users could change. The check is
 * similar to `StrictModes` in OpenSSH. A group-writable source or destination is only a warning, because
 * teams publish this way. Everything else is an error, unless the path is in `trusted_directories`.
 */
export interface PathScope {
  /** Check only these pipelines; null for all. */
  pipelineIds?: readonly string[] | undefined;
  /** Also check staging and the queue. */
  isDaemon?: boolean;
  /** The value of `SUDO_UID`: root trusts the user who invoked sudo. */
  sudoUser?: string | undefined;
  /**
   * There is no configuration file. The user named the sources and destinations, so these only cause
   * warnings.
   */
  areDirectoriesNamed?: boolean;
}

interface UsedPath {
  setting: KeyPath;
  path: string;
  use: PathUse;
}

/** Returns errors and warnings, in the order of the settings. */
export function unsafePaths(loaded: Pick<Loaded, 'config' | 'locate'>, scope: PathScope = {}): Finding[] {
  return judged(loaded, scope).map(({ found }) => found);
}

/** Checks the paths and returns any warnings. Throws `unsafe_permissions` if there are errors. */
export function requireSafePaths(loaded: Pick<Loaded, 'config' | 'locate'>, scope: PathScope): Finding[] {
  const all = judged(loaded, scope);
  const errors = all.filter(({ found }) => found.severity === 'error');
  const [first] = errors;
  if (first === undefined) return all.map(({ found }) => found);
  const { pointer, message } = first.found;
  const more = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  const commands = [...new Set(errors.map(({ weakness }) => weakness.remedy))].join(' && ');
  const otherwise = scope.areDirectoriesNamed === true ? '' : ', or add the directory to trusted_directories';
  throw new WaybillError('unsafe_permissions', `${pointer === null ? '' : `${pointer}: `}${message}${more}`, {
    hint: `${commands}${otherwise}`,
    findings: all.map(({ found }) => found),
  });
}

interface Judged {
  weakness: Weakness;
  found: Finding;
}

function judged({ config, locate }: Pick<Loaded, 'config' | 'locate'>, scope: PathScope): Judged[] {
  const { areDirectoriesNamed: isLenient = false } = scope;
  return usedPaths(config, scope)
    .filter((used) => !isTrusted(used.path, config.trustedDirectories))
    .flatMap((used) => weaknessesOf(used.path, scope.sudoUser).map((weakness) => ({ used, weakness })))
    .map(({ used, weakness }) => {
      const isWarning = used.use === 'content' && (isLenient || weakness.kind === 'group');
      const place = isLenient ? {} : { file: config.file, ...locate(used.setting) };
      const message = described(used.path, weakness);
      return {
        weakness,
        found: finding(isWarning ? 'warning' : 'error', 'unsafe_permissions', message, place),
      };
    });
}

function usedPaths(config: Config, { pipelineIds, isDaemon = false }: PathScope): UsedPath[] {
  const used: UsedPath[] = secretFiles(config);
  if (config.audit !== null) used.push(own(['audit', 'directory'], config.audit.directory));
  for (const [index, { id, source, followLinks, destinations, signatures }] of config.pipelines.entries()) {
    if (pipelineIds?.includes(id) === false) continue;
    const at = ['pipelines', index];
    if (source.backend !== 'http_upload') used.push(...pathsOf(source, [...at, 'source']));
    for (const [other, directory] of (followLinks?.linksTo ?? []).entries())
      used.push({ setting: [...at, 'source', 'links_to', other], path: directory, use: 'content' });
    const keys = signatures?.keysFile ?? null;
    if (keys !== null) used.push({ setting: [...at, 'signatures', 'keys_file'], path: keys, use: 'private' });
    for (const [other, { location }] of destinations.entries())
      used.push(...pathsOf(location, [...at, 'destinations', other]));
  }
  return isDaemon ? [...used, ...keyFiles(config), ...daemonPaths(config)] : used;
}

/** Returns the issuers' key files. Any user who can change them can forge ID tokens. */
function keyFiles({ trustedPublishers }: Config): UsedPath[] {
  return trustedPublishers.flatMap(({ jwksFile }, index) =>
    jwksFile === null
      ? []
      : [{ setting: ['trusted_publishers', index, 'jwks_file'], path: jwksFile, use: 'private' as const }],
  );
}

const own = (setting: KeyPath, place: string): UsedPath => ({ setting, path: place, use: 'private' });

function daemonPaths({ server: { staging, queue }, pipelines }: Config): UsedPath[] {
  const at = ['server', 'staging'];
  const isUploading = pipelines.some(({ source }) => source.backend === 'http_upload');
  if (queue.driver === 'bullmq')
    return [
      own(['server', 'queue', 'scratch_directory'], staging.directory),
      ...(staging.shared === null ? [] : privatePaths(staging.shared, at)),
    ];
  const staged = isUploading ? [own([...at, 'directory'], staging.directory)] : [];
  if (queue.driver === 'memory') return staged;
  const setting = ['server', 'queue', 'directory'];
  const files = ['', 'data.mdb', 'data.mdb-lock'].map((name) =>
    own(setting, path.join(queue.directory, name)),
  );
  return [...staged, ...files];
}

/** Returns the secrets directory and its files. */
function secretFiles({ secrets: { directory } }: Config): UsedPath[] {
  if (directory === null) return [];
  const names = namesIn(directory).filter((name) => !name.startsWith('..'));
  return [directory, ...names.map((name) => path.join(directory, name))].map((each) => ({
    setting: ['secrets', 'directory'],
    path: each,
    use: 'private',
  }));
}

function pathsOf(location: StorageLocation, at: KeyPath): UsedPath[] {
  return backendOf(location)
    .localPaths(location)
    .map(({ setting, ...used }) => ({ setting: [...at, setting], ...used }));
}

function privatePaths(location: StorageLocation, at: KeyPath): UsedPath[] {
  const setting = location.backend === 'local' ? [...at, 'directory'] : at;
  return pathsOf(location, at).map((used) => ({ ...used, setting, use: 'private' }));
}

function isTrusted(used: string, trusted: readonly string[]): boolean {
  return trusted.some((directory) =>
    [directory, realPathOf(directory)].some(
      (each) => isWithin(used, each) || isWithin(realPathOf(used), each),
    ),
  );
}

function isWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(outer === '/' ? outer : `${outer}/`);
}

function realPathOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function described(used: string, { path: entry, found }: Weakness): string {
  return entry === used ? `${entry} ${found}` : `${entry}, which leads to ${used}, ${found}`;
}
