import pMap from 'p-map';
import type { CatalogState } from '../../catalog/catalog.ts';
import { readState, type StoredState } from '../../catalog/catalog-store.ts';
import { isInBundlePath } from '../../catalog/managed-paths.ts';
import { inParallel } from '../../lib/parallel.ts';
import {
  ancestorsOf,
  compareCodeUnits,
  isReservedPath,
  lockName,
  type RelativePath,
  stateName,
} from '../../lib/paths.ts';
import { joinKey, type Key, keyOf, listedKey, nameOf, parentOf } from '../../storage/key.ts';
import type { EntryType, Storage } from '../../storage/storage.ts';
import { ListingLimit } from '../../storage/untrusted.ts';
import type { Damage, DecisionInput, Observation, PlannedOutput } from '../plan.ts';
import { type FileReader, findDamage } from './damage.ts';
import { isSettledByState, type PathSet, recordedIn, reusableOutputs } from './records.ts';

/**
 * How many `stat` calls to run at a time. On remote storage, most of the time is spent waiting for the
 * network.
 */
const maxConcurrentStats = 64;

/**
 * Collects what a decision needs to know about a bundle path, with as few requests as possible:
 *
 * - If the state is enough to decide, reads nothing else.
 * - With a valid state, calls `stat` for each planned path that is not recorded or that might be kept, or
 *   lists directories where that is cheaper.
 * - If there is no usable state, or if force might delete everything, lists everything.
 *
 * `storage` is rooted at the bundle path. If the state was just read, pass it as `stored`; pass `damaged`
 * from an earlier observation of the same state. Never writes. Throws the storage's error.
 */
export async function observe(
  storage: Storage,
  input: Pick<DecisionInput, 'owner' | 'workflow' | 'planned' | 'force'>,
  stored?: StoredState,
  damaged?: Observation['damaged'],
): Promise<Observation> {
  const { state } = stored ?? (await readState(storage));
  const nothing = emptyObservation(state, storage);
  if (isSettledByState(input, state)) return { ...nothing, isSettled: true };
  const everything = input.force ? await listAll(storage) : null;
  if (state.kind !== 'valid' && state.kind !== 'legacy') {
    if (everything !== null)
      return { ...nothing, ...everything, contentPresent: everything.contents.length > 0 };
    return { ...nothing, ...(await survey(storage)) };
  }
  const recorded = recordedIn(state);
  const candidates = input.planned.map(({ path }) => path).filter((path) => !recorded.has(path));
  const reusable = state.kind === 'valid' ? reusableOutputs(input.planned, state.catalog, storage.facts) : [];
  const unseen = damaged === undefined ? reusable : [];
  const look = isListingCheaper(storage, candidates.length + unseen.length, recorded.size)
    ? await listedView(storage, input.planned)
    : storage;
  const unrecorded = state.kind === 'legacy' ? [] : await findPresent(look, candidates, recorded);
  const isRemote = look === storage && storage.localFiles === undefined;
  damaged ??= await findDamage(look, unseen, isRemote);
  const obstacles = await findObstacles(storage, writePaths(input.planned, reusable, damaged), recorded);
  const { nested, contents } = everything ?? {
    nested: await findAbove(look, candidates),
    contents: [],
  };
  return { ...nothing, contentPresent: true, unrecorded, damaged, obstacles, nested, contents };
}

export function emptyObservation(
  state: CatalogState,
  storage: Pick<Storage, 'facts' | 'maxBackupBytes'>,
): Observation {
  const { facts, maxBackupBytes = 0 } = storage;
  return {
    state,
    keepsHeaders: facts.keepsHeaders,
    maxBackupBytes,
    isSettled: false,
    contentPresent: false,
    unmanagedFile: null,
    unrecorded: [],
    damaged: new Map<string, Damage>(),
    obstacles: new Map<string, EntryType>(),
    nested: [],
    contents: [],
  };
}

/**
 * Estimates which takes fewer requests. On an object store, every `stat` is a request, while a listing
 * returns a thousand names at a time.
 */
function isListingCheaper(storage: Storage, stats: number, records: number): boolean {
  return storage.rename === undefined && stats > 16 && records < stats * 500;
}

/**
 * Returns a reader that lists the bundle path once and then answers `stat` calls for planned paths and states
 * from memory. For object stores only: it does not know about directories.
 */
async function listedView(storage: Storage, planned: readonly PlannedOutput[]): Promise<FileReader> {
  const wanted = new Set<string>(planned.map(({ path }) => path));
  const sizes = new Map<string, number>();
  for await (const { key, size } of storage.list('', { recursive: true }))
    if (wanted.has(key) || nameOf(key) === stateName) sizes.set(key, size);
  return {
    list: (directory, options) => storage.list(directory, options),
    async stat(key) {
      const size = sizes.get(key);
      return size === undefined ? undefined : { type: 'file', size, version: null, modifiedAt: null };
    },
  };
}

function writePaths(
  planned: readonly PlannedOutput[],
  reusable: readonly PlannedOutput[],
  damaged: ReadonlyMap<string, Damage>,
): RelativePath[] {
  const sound = new Set(reusable.filter(({ path }) => !damaged.has(path)));
  return planned.filter((output) => !sound.has(output)).map(({ path }) => path);
}

/**
 * Returns the paths that exist in storage. A directory with nothing but recorded files in it does not count,
 * because those files can be removed.
 */
async function findPresent(
  storage: FileReader,
  paths: RelativePath[],
  recorded: PathSet,
): Promise<RelativePath[]> {
  const isTaken = async (path: RelativePath): Promise<boolean> => {
    const found = await storage.stat(keyOf(path));
    if (found?.type !== 'directory') return found !== undefined;
    for await (const { key } of storage.list(keyOf(path), { recursive: true }))
      if (!recorded.has(key)) return true;
    return false;
  };
  const present = await pMap(paths, async (path) => ((await isTaken(path)) ? [path] : []), {
    concurrency: maxConcurrentStats,
  });
  return present.flat();
}

/** Returns the parent directories of these paths that are managed bundle paths themselves. */
async function findAbove(storage: FileReader, paths: RelativePath[]): Promise<string[]> {
  const directories = new Set<string>();
  for (const path of paths) for (const ancestor of ancestorsOf(path)) directories.add(ancestor);
  const managed = await pMap(
    directories,
    async (directory) =>
      (await storage.stat(joinKey(directory as Key, stateName))) === undefined ? [] : [directory],
    { concurrency: maxConcurrentStats },
  );
  return managed.flat();
}

/**
 * Walks the bundle path until it comes across unmanaged content. Along the way, it collects nested managed
 * bundle paths without entering them. If there is content, it stops early and `nested` is incomplete.
 */
async function survey(
  storage: Storage,
): Promise<Pick<Observation, 'contentPresent' | 'unmanagedFile' | 'nested'>> {
  const nested: string[] = [];
  const pending: (Key | '')[] = [''];
  const limit = new ListingLimit();
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const directories: Key[] = [];
    let isManaged = false;
    let unmanagedFile: Key | null = null;
    for await (const { key, type } of storage.list(directory, { recursive: false, limit })) {
      if (directory !== '' && isStateOrLock(key) && parentOf(key) === directory) isManaged = true;
      else if (isReservedPath(nameOf(key))) continue;
      else if (type === 'directory') directories.push(key);
      else if (unmanagedFile === null || compareCodeUnits(key, unmanagedFile) < 0) unmanagedFile = key;
    }
    if (isManaged) nested.push(directory);
    else if (unmanagedFile !== null) return { contentPresent: true, unmanagedFile, nested };
    else for (const each of directories) pending.push(each);
  }
  return { contentPresent: false, unmanagedFile: null, nested };
}

/** Returns all files that force would delete below the bundle path, and the nested managed bundle paths. */
async function listAll(storage: Storage): Promise<Pick<Observation, 'contents' | 'nested'>> {
  const contents: Key[] = [];
  const nested = new Set<string>();
  for await (const { key } of storage.list('', { recursive: true })) {
    if (!isReservedPath(key)) contents.push(key);
    else if (isStateOrLock(key) && parentOf(key) !== '' && isInBundlePath(key)) nested.add(parentOf(key));
  }
  return { contents: contents.sort(compareCodeUnits), nested: [...nested].sort(compareCodeUnits) };
}

function isStateOrLock(key: Key): boolean {
  const name = nameOf(key);
  return name === stateName || name === lockName;
}

/**
 * Returns the entries that are in the way of these planned paths and are not in the state, by path: a file or
 * link where a directory is needed, or a directory with unknown content at a `recorded` path. Object stores
 * have no directories, so nothing can be in the way there. Throws the storage's error.
 */
export async function findObstacles(
  storage: Pick<Storage, 'rename' | 'stat' | 'list'>,
  paths: readonly RelativePath[],
  recorded: PathSet,
): Promise<Map<string, EntryType>> {
  const obstacles = new Map<string, EntryType>();
  if (storage.rename === undefined) return obstacles;
  const directories = new Set<string>();
  for (const path of paths)
    for (const ancestor of ancestorsOf(path)) if (!recorded.has(ancestor)) directories.add(ancestor);
  await inParallel(directories, maxConcurrentStats, async (directory) => {
    const found = await storage.stat(listedKey(directory));
    if (found !== undefined && found.type !== 'directory') obstacles.set(directory, found.type);
  });
  await inParallel(paths, maxConcurrentStats, async (path) => {
    if (recorded.has(path) && (await hasUnrecordedEntries(storage, path, recorded)))
      obstacles.set(path, 'directory');
  });
  return obstacles;
}

/** Reports whether the path is a directory with files in it that are not in the state. */
async function hasUnrecordedEntries(
  storage: Pick<Storage, 'stat' | 'list'>,
  path: RelativePath,
  recorded: PathSet,
): Promise<boolean> {
  if ((await storage.stat(keyOf(path)))?.type !== 'directory') return false;
  for await (const { key } of storage.list(keyOf(path), { recursive: true }))
    if (!recorded.has(key)) return true;
  return false;
}
