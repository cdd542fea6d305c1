import pMap from 'p-map';
import { ancestorsOf, type RelativePath } from '../paths.ts';
import { isReservedPath, lockName, stateName } from '../reserved-names.ts';
import { recordedPaths } from '../catalog/recorded-paths.ts';
import { readState, type StoredState } from '../catalog/store.ts';
import { joinKey, keyOf, nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { isSettledByState } from './decision/recorded-as.ts';
import type { DecisionInput, Observation } from './plan.ts';

/** Paths that are looked at concurrently. */
const concurrentLooks = 16;

/**
 * Looks at a destination bundle path, and no further than the decision needs: one read of the state if that
 * settles everything; a `stat` of each unrecorded planned path if the state is valid; a listing if there is
 * no usable state. `storage` is rooted at the bundle path. `stored` is the state if it was just read. Never
 * writes. Throws the storage's own error.
 */
export async function observe(
  storage: Storage,
  input: Pick<DecisionInput, 'owner' | 'workflow' | 'planned' | 'force'>,
  stored?: StoredState,
): Promise<Observation> {
  const { state } = stored ?? (await readState(storage));
  if (isSettledByState(input, state))
    return { state, isSettled: true, contentPresent: false, unrecorded: [], nested: [] };
  if (state.kind === 'valid' || state.kind === 'legacy') {
    const recorded = recordedPaths(state);
    const candidates = input.planned.map(({ path }) => path).filter((path) => !recorded.has(path));
    const look = isListingCheaper(storage, candidates.length, recorded.size)
      ? await listedView(storage)
      : storage;
    const unrecorded = state.kind === 'legacy' ? [] : await presentAmong(look, candidates, recorded);
    const nested = input.force ? (await survey(storage, false)).nested : await nestedAbove(look, candidates);
    return { state, isSettled: false, contentPresent: true, unrecorded, nested };
  }
  const { contentPresent, nested } = await survey(storage, !input.force);
  return { state, isSettled: false, contentPresent, unrecorded: [], nested };
}

type Look = Pick<Storage, 'stat' | 'list'>;

/** An object store takes one request per `stat`, but lists a thousand names in one. */
function isListingCheaper(storage: Storage, stats: number, records: number): boolean {
  return storage.facts.rename === 'none' && stats > 16 && records < stats * 500;
}

/** A listing of everything, in the form of a storage. Object stores know only files. */
async function listedView(storage: Storage): Promise<Look> {
  const sizes = new Map<string, number>();
  for await (const { key, size } of storage.list('', { recursive: true })) sizes.set(key, size);
  return {
    list: (directory, options) => storage.list(directory, options),
    async stat(key) {
      const size = sizes.get(key);
      return size === undefined ? undefined : { type: 'file', size, version: null, modifiedAt: null };
    },
  };
}

/**
 * Which of these paths are taken. A directory that holds nothing but recorded files does not count, because
 * those can be removed.
 */
async function presentAmong(
  storage: Look,
  paths: RelativePath[],
  recorded: ReadonlySet<string>,
): Promise<RelativePath[]> {
  const isTaken = async (path: RelativePath): Promise<boolean> => {
    const found = await storage.stat(keyOf(path));
    if (found?.type !== 'directory') return found !== undefined;
    for await (const { key } of storage.list(keyOf(path), { recursive: true }))
      if (!recorded.has(key)) return true;
    return false;
  };
  const taken = await pMap(paths, async (path) => ((await isTaken(path)) ? [path] : []), {
    concurrency: concurrentLooks,
  });
  return taken.flat();
}

/** The directories of these paths that are managed bundle paths themselves. */
async function nestedAbove(storage: Look, paths: RelativePath[]): Promise<string[]> {
  const directories = new Set<string>();
  for (const path of paths) for (const ancestor of ancestorsOf(path)) directories.add(ancestor);
  const managed = await pMap(
    directories,
    async (directory) =>
      (await storage.stat(joinKey(directory as Key, stateName))) === undefined ? [] : [directory],
    { concurrency: concurrentLooks },
  );
  return managed.flat();
}

/**
 * Walks the bundle path level by level: is there any content that waybill does not manage, and which managed
 * bundle paths lie below? Those are not entered. With `untilContent` the walk ends at the first content, and
 * `nested` is then incomplete.
 */
async function survey(
  storage: Storage,
  untilContent: boolean,
): Promise<{ contentPresent: boolean; nested: string[] }> {
  const nested: string[] = [];
  const pending: (Key | '')[] = [''];
  let contentPresent = false;
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const directories: Key[] = [];
    let isManaged = false;
    let hasContent = false;
    for await (const { key, type } of storage.list(directory, { recursive: false })) {
      const name = nameOf(key);
      if (directory !== '' && (name === stateName || name === lockName)) isManaged = true;
      else if (isReservedPath(name)) continue;
      else if (type === 'directory') directories.push(key);
      else hasContent = true;
    }
    if (isManaged) {
      nested.push(directory);
      continue;
    }
    contentPresent ||= hasContent;
    if (contentPresent && untilContent) break;
    pending.push(...directories);
  }
  return { contentPresent, nested };
}
