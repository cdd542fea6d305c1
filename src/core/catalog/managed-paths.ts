import { WaybillError } from '../lib/errors.ts';
import { ancestorsOf, compareCodeUnits, isReservedPath, stateName } from '../lib/paths.ts';
import { type Owner, sameOwner } from '../storage/identity.ts';
import { hasValidSegments, type Key, nameOf, parentOf, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import type { CatalogState } from './catalog.ts';
import { readState, stateKey } from './catalog-store.ts';

/*
 * Finds the bundle paths of a destination that waybill manages, which are those with a catalog.
 */

/**
 * The contents of a destination, as found in a single recursive listing. On an object store, that takes only
 * one request per thousand names.
 */
interface Survey {
  /** Every managed bundle path, parents first; '' for the root. */
  paths: (Key | '')[];
  /**
   * The files of each managed bundle path, relative to it. The publisher's own files and the files of nested
   * bundle paths are not included.
   */
  files: Map<Key | '', Set<string>>;
  /**
   * The files that are not in any managed bundle path, sorted. The publisher's own files are not included.
   */
  strays: Key[];
}

/** Lists everything at a destination. Throws the storage's error if that fails. */
export async function surveyDestination(storage: Storage): Promise<Survey> {
  const paths: (Key | '')[] = [];
  const keys: Key[] = [];
  for await (const { key, type } of storage.list('', { recursive: true })) {
    if (!isReservedPath(key)) keys.push(key);
    else if (type === 'file' && nameOf(key) === stateName && isInBundlePath(key)) paths.push(parentOf(key));
  }
  paths.sort(compareCodeUnits);
  const files = new Map<Key | '', Set<string>>(paths.map((path) => [path, new Set()]));
  const strays: Key[] = [];
  for (const key of keys) {
    const path = managedAbove(key, files);
    if (path === null) strays.push(key);
    else files.get(path)?.add(path === '' ? key : key.slice(path.length + 1));
  }
  return { paths, files, strays: strays.sort(compareCodeUnits) };
}

/** Reports whether a catalog or lock with this key is in a directory that can be a bundle path. */
export function isInBundlePath(key: Key): boolean {
  return hasValidSegments(key) && !isReservedPath(parentOf(key));
}

/** Returns the closest managed bundle path above this key, or null if there is none. */
function managedAbove(key: Key, managed: ReadonlyMap<Key | '', unknown>): Key | '' | null {
  for (let above = parentOf(key); above !== ''; above = parentOf(above)) if (managed.has(above)) return above;
  return managed.has('') ? '' : null;
}

/** Returns the managed bundle paths of a destination, parents first; '' for the root. */
export async function managedPaths(storage: Storage): Promise<(Key | '')[]> {
  return (await surveyDestination(storage)).paths;
}

/** Like `managedPaths`, but throws a `bundle_not_found` error if there are none. */
export async function requireManagedPaths(storage: Storage): Promise<(Key | '')[]> {
  return (await requireManagedSurvey(storage)).paths;
}

/** Like `surveyDestination`, but throws a `bundle_not_found` error if no bundle path is managed. */
export async function requireManagedSurvey(storage: Storage): Promise<Survey> {
  const survey = await surveyDestination(storage);
  if (survey.paths.length > 0) return survey;
  throw new WaybillError(
    'bundle_not_found',
    `the destination holds no ${stateName}: nothing was published to it yet`,
    {
      hint: 'publish first, or check the path of the destination',
    },
  );
}

/** Returns the form of a bundle path that is used in reports, with `.` for the root. */
export function displayPath(path: Key | ''): string {
  return path === '' ? '.' : path;
}

/** Files at or below a bundle path that are listed in the catalog of a parent directory. */
export interface ClaimAbove {
  /** The bundle path of that catalog; `.` for the destination root. */
  catalogPath: string;
  /**
   * The first of the files, relative to the destination root, and how many others there are. null if the
   * files are not known because the state is invalid or from a newer version.
   */
  files: { first: string; others: number } | null;
  /** The owner of the first file; null if the state does not say. */
  owner: Owner | null;
}

/**
 * Looks for files at or below `bundlePath` that are recorded or announced in the catalog of a parent
 * directory. Returns null if there are none. Reads one state per directory, starting at the destination root.
 * Throws the storage's error.
 */
export async function findClaimAbove(root: Storage, bundlePath: string): Promise<ClaimAbove | null> {
  if (bundlePath === '.') return null;
  for (const catalogPath of ['.', ...ancestorsOf(bundlePath)]) {
    const { state } = await readState(subdirectory(root, parseBundlePath(catalogPath)));
    const claim = claimOf(state, catalogPath, bundlePath);
    if (claim !== null) return claim;
  }
  return null;
}

function claimOf(state: CatalogState, catalogPath: string, bundlePath: string): ClaimAbove | null {
  if (state.kind === 'absent') return null;
  if (state.kind === 'invalid' || state.kind === 'future') return { catalogPath, files: null, owner: null };
  const holders = holdersIn(state);
  const below = catalogPath === '.' ? bundlePath : bundlePath.slice(catalogPath.length + 1);
  const claimed = [...holders.keys()].filter((path) => path === below || path.startsWith(`${below}/`)).sort();
  const [first] = claimed;
  if (first === undefined) return null;
  return {
    catalogPath,
    files: {
      first: catalogPath === '.' ? first : `${catalogPath}/${first}`,
      others: claimed.length - 1,
    },
    owner: holders.get(first) ?? null,
  };
}

function holdersIn(state: Extract<CatalogState, { kind: 'valid' | 'legacy' }>): Map<string, Owner | null> {
  if (state.kind === 'legacy') return new Map(state.records.map(({ path, v3 }) => [path, v3?.owner ?? null]));
  const { outputs, pending } = state.catalog;
  const holders = new Map<string, Owner | null>(pending?.removes.map((path) => [path, pending.owner]));
  for (const { path, owner } of [...(pending?.outputs ?? []), ...outputs]) holders.set(path, owner);
  return holders;
}

/** How much `lastCommitTime` may read. If it would have to read more, it returns null. */
interface CatalogReadLimits {
  entries: number;
  /** The maximum number of catalogs whose modification time is looked up. */
  catalogs: number;
  /** How many of the newest catalogs to read. Older ones are skipped without an error. */
  read: number;
  /** The maximum size of a catalog, in bytes. */
  bytes: number;
}

const mebibyte = 1024 * 1024;
export const catalogReadLimits: CatalogReadLimits = {
  entries: 20_000,
  catalogs: 500,
  read: 5,
  bytes: 16 * mebibyte,
};

/**
 * Returns the time of this owner's last commit at the destination, going by its catalogs. Returns null if
 * there is none, or if finding out would exceed the limits. A run that had nothing to do leaves no trace in a
 * catalog. `storage` is rooted at the destination. Takes no lease. Throws the storage's error.
 */
export async function lastCommitTime(
  storage: Storage,
  owner: Owner,
  mapping: 'preserve_relative' | 'fixed',
  limits: CatalogReadLimits = catalogReadLimits,
): Promise<Date | null> {
  const paths = mapping === 'fixed' ? ([''] as const) : await bundlePaths(storage, limits);
  if (paths === null) return null;
  const newest = await newestCatalogs(storage, paths, limits);
  if (newest === null) return null;
  const times: number[] = [];
  for (const path of newest) times.push(...(await committedBy(subdirectory(storage, path), owner)));
  const last = times.reduce((a, b) => Math.max(a, b), -Infinity);
  return Number.isFinite(last) ? new Date(last) : null;
}

/** Returns the managed bundle paths, or null if listing them would exceed the limits. */
async function bundlePaths(storage: Storage, limits: CatalogReadLimits): Promise<(Key | '')[] | null> {
  const paths: (Key | '')[] = [];
  let entries = 0;
  for await (const { key, type } of storage.list('', { recursive: true })) {
    entries += 1;
    if (type === 'file' && nameOf(key) === stateName && isInBundlePath(key)) paths.push(parentOf(key));
    if (entries > limits.entries || paths.length > limits.catalogs) return null;
  }
  return paths;
}

/**
 * Returns the catalogs that were written last, which include the one with the last commit, because every
 * commit writes its catalog. Returns null if one of them is too large to read.
 */
async function newestCatalogs(
  storage: Storage,
  paths: readonly (Key | '')[],
  limits: CatalogReadLimits,
): Promise<(Key | '')[] | null> {
  const found: { path: Key | ''; at: number; size: number }[] = [];
  for (const path of paths) {
    const stat = await subdirectory(storage, path).stat(stateKey);
    if (stat !== undefined) found.push({ path, at: stat.modifiedAt?.getTime() ?? 0, size: stat.size });
  }
  const newest = found.sort((a, b) => b.at - a.at).slice(0, limits.read);
  return newest.some(({ size }) => size > limits.bytes) ? null : newest.map(({ path }) => path);
}

async function committedBy(bundle: Storage, owner: Owner): Promise<number[]> {
  const { state } = await readState(bundle);
  if (state.kind !== 'valid') return [];
  // The records of an attempt that has not been committed are in `pending` and do not count.
  const own = state.catalog.outputs.filter((output) => sameOwner(output.owner, owner));
  return own.map(({ updatedAt }) => Date.parse(updatedAt));
}
