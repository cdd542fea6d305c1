import pMap from 'p-map';
import type { CatalogState } from '../../catalog/catalog.ts';
import { isInBundlePath } from '../../catalog/managed-paths.ts';
import { readState, type StoredState } from '../../catalog/store.ts';
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
import type { Damage, DecisionInput, Observation, PlannedOutput } from '../plan.ts';
import { damagedAmong } from './damage.ts';
import { isSettledByState, type PathSet, recordedIn, reusableOutputs } from './records.ts';

/** The number of concurrent `stat` calls. It is high because latency dominates on remote storage. */
const maxConcurrentStats = 64;

/**
 * Observes a destination bundle path with as few requests as possible:
 *
 * - reads only the state, if that settles the decision;
 * - with a valid state, calls `stat` for each planned path that is unrecorded or may be kept, or lists
 *   directories if that is cheaper;
 * - lists everything if there is no usable state or force may clear it all.
 *
 * `storage` is rooted at the bundle path. Pass `stored` if the state was just read, and `damaged` from an
 * earlier observation of the same state. Never writes. Throws the storage's error.
 */
export async function observe(
  storage: Storage,
  input: Pick<DecisionInput, 'owner' | 'workflow' | 'planned' | 'force'>,
  stored?: StoredState,
  damaged?: Observation['damaged'],
): Promise<Observation> {
  const { state } = stored ?? (await readState(storage));
  const nothing = nothingSeen(state, storage);
  if (isSettledByState(input, state)) return { ...nothing, isSettled: true };
  const everything = input.force ? await everythingBelow(storage) : null;
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
  const unrecorded = state.kind === 'legacy' ? [] : await presentAmong(look, candidates, recorded);
  const isRemote = look === storage && storage.localFiles === undefined;
  damaged ??= await damagedAmong(look, unseen, isRemote);
  const obstacles = await obstaclesTo(storage, pathsToWrite(input.planned, reusable, damaged), recorded);
  const { nested, contents } = everything ?? { nested: await nestedAbove(look, candidates), contents: [] };
  return { ...nothing, contentPresent: true, unrecorded, damaged, obstacles, nested, contents };
}

/** Returns an observation without findings. */
export function nothingSeen(
  state: CatalogState,
  storage: Pick<Storage, 'facts' | 'largestKeptBytes'>,
): Observation {
  const { facts, largestKeptBytes = 0 } = storage;
  return {
    state,
    keepsHeaders: facts.keepsHeaders,
    largestKeptBytes,
    isSettled: false,
    contentPresent: false,
    unrecorded: [],
    damaged: new Map<string, Damage>(),
    obstacles: new Map<string, EntryType>(),
    nested: [],
    contents: [],
  };
}

type FileReader = Pick<Storage, 'stat' | 'list' | 'localFiles'>;

/**
 * Compares the number of requests: object stores need one per `stat`, but list a thousand names per request.
 */
function isListingCheaper(storage: Storage, stats: number, records: number): boolean {
  return storage.rename === undefined && stats > 16 && records < stats * 500;
}

/**
 * Returns a reader that answers `stat` calls for planned paths and states from a single listing. Only for
 * object stores, which have no directories.
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

/** Returns the planned paths to write. */
function pathsToWrite(
  planned: readonly PlannedOutput[],
  reusable: readonly PlannedOutput[],
  damaged: ReadonlyMap<string, Damage>,
): RelativePath[] {
  const sound = new Set(reusable.filter(({ path }) => !damaged.has(path)));
  return planned.filter((output) => !sound.has(output)).map(({ path }) => path);
}

/**
 * Returns the paths that exist in storage. A directory that contains only recorded files does not count,
 * because those can be removed.
 */
async function presentAmong(
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
  const taken = await pMap(paths, async (path) => ((await isTaken(path)) ? [path] : []), {
    concurrency: maxConcurrentStats,
  });
  return taken.flat();
}

/** Returns the managed bundle paths among the parent directories of these paths. */
async function nestedAbove(storage: FileReader, paths: RelativePath[]): Promise<string[]> {
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
 * Walks the bundle path until it finds unmanaged content, and collects the nested managed bundle paths
 * without entering them. `nested` is complete only if there is no content.
 */
async function survey(storage: Storage): Promise<Pick<Observation, 'contentPresent' | 'nested'>> {
  const nested: string[] = [];
  const pending: (Key | '')[] = [''];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const directories: Key[] = [];
    let isManaged = false;
    let hasContent = false;
    for await (const { key, type } of storage.list(directory, { recursive: false })) {
      if (directory !== '' && isStateOrLock(key) && parentOf(key) === directory) isManaged = true;
      else if (isReservedPath(nameOf(key))) continue;
      else if (type === 'directory') directories.push(key);
      else hasContent = true;
    }
    if (isManaged) nested.push(directory);
    else if (hasContent) return { contentPresent: true, nested };
    else pending.push(...directories);
  }
  return { contentPresent: false, nested };
}

/** Returns all files below the bundle path that force would clear, and the nested managed bundle paths. */
async function everythingBelow(storage: Storage): Promise<Pick<Observation, 'contents' | 'nested'>> {
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
 * Returns the unrecorded entries that block these planned paths, by path: a file or link where a directory is
 * needed, and a directory with unrecorded content at a `recorded` path. Object stores have no directories, so
 * they have no obstacles. Throws the storage's error.
 */
export async function obstaclesTo(
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
    if (recorded.has(path) && (await holdsOthers(storage, path, recorded))) obstacles.set(path, 'directory');
  });
  return obstacles;
}

/** Reports whether the path is a directory that contains unrecorded files. */
async function holdsOthers(
  storage: Pick<Storage, 'stat' | 'list'>,
  path: RelativePath,
  recorded: PathSet,
): Promise<boolean> {
  if ((await storage.stat(keyOf(path)))?.type !== 'directory') return false;
  for await (const { key } of storage.list(keyOf(path), { recursive: true }))
    if (!recorded.has(key)) return true;
  return false;
}
