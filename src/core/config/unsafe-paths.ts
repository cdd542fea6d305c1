import { readdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import type { KeyPath } from '../lib/settings/check.ts';
import { findWeaknesses, type Weakness } from '../lib/unsafe-path.ts';
import type { PathUse } from '../storage/backend.ts';
import { backendOf, type StorageLocation } from '../storage/backends.ts';
import type { Config } from './config.ts';
import type { LoadedConfig } from './load-config.ts';

/**
 * Decides which paths of a configuration to check. Files and directories should not be writable by other
 * users; the rules are like those of `StrictModes` in OpenSSH. A group may be able to write to a source or
 * destination, because teams publish like that, so this is only a warning. Anything else is an error, unless
 * the path is in `trusted_directories`.
 */
export interface PathScope {
  /** Only check these pipelines; null to check all of them. */
  pipelineIds?: readonly string[] | undefined;
  /** Check staging and the queue as well. */
  isDaemon?: boolean;
  /** The value of `SUDO_UID`. Root trusts the user who called sudo. */
  sudoUser?: string | undefined;
  /**
   * There is no configuration file. The user chose the sources and destinations on the command line, so they
   * only lead to warnings.
   */
  areDirectoriesNamed?: boolean;
}

interface UsedPath {
  setting: KeyPath;
  path: string;
  use: PathUse;
}

/** Checks all paths. Returns errors and warnings in the order of the settings. */
export function unsafePaths(
  loaded: Pick<LoadedConfig, 'config' | 'locate'>,
  scope: PathScope = {},
): Finding[] {
  return judged(loaded, scope).map(({ found }) => found);
}

/** Checks all paths and returns the warnings. If there are errors, throws an `unsafe_permissions` error. */
export function requireSafePaths(
  loaded: Pick<LoadedConfig, 'config' | 'locate'>,
  scope: PathScope,
): Finding[] {
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

function judged({ config, locate }: Pick<LoadedConfig, 'config' | 'locate'>, scope: PathScope): Judged[] {
  const { areDirectoriesNamed: isLenient = false } = scope;
  return usedPaths(config, scope)
    .filter((used) => !isTrusted(used.path, config.trustedDirectories))
    .flatMap((used) => findWeaknesses(used.path, scope.sudoUser).map((weakness) => ({ used, weakness })))
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

/** Returns the files with the keys of issuers. With access to these, another user could forge ID tokens. */
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
