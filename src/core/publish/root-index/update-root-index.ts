import { isRootIndexOutput } from '../../catalog/catalog.ts';
import { readState, type StoredState } from '../../catalog/catalog-store.ts';
import type { Lease } from '../../catalog/lease/lease.ts';
import { decideUnderLease, sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import type { CoreContext } from '../../context.ts';
import { errorRecord, type Finding, finding } from '../../lib/errors.ts';
import { isSameBundle, type ListedBundle, maxListed, newestBundles } from '../../outputs/json-feed.ts';
import { sameOwner } from '../../storage/identity.ts';
import { keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { applyUnderLease } from '../apply/apply.ts';
import { byPath, matchesRecord } from '../decision/records.ts';
import type { Work } from '../plan.ts';
import {
  bundleAt,
  listBundles,
  type ListedDestination,
  plannedFiles,
  rootFileNames,
  type RootIndex,
  type RootSnapshot,
  rootSnapshot,
} from './root-files.ts';

/*
 * Maintains the index at a destination's root, which consists of a page and feeds of the latest bundles. The
 * index has the bundle path `.` and is published after the bundles that it lists, with the same protocol.
 * Entries are derived from the bundles' catalogs. If an update gets lost, the next update for that bundle
 * makes up for it. Before a bundle is unpublished, it is removed from the index, so every bundle in the index
 * exists.
 */

/** The bundle that was found at each bundle path; null if there was none. */
export type FoundBundles = ReadonlyMap<string, ListedBundle | null>;

/**
 * Updates the index entries for these bundle paths. Their catalogs are read again under the lease, so that
 * after two concurrent updates the index is correct. If the index is already up to date, nothing is written
 * and no lease is taken. Returns a warning if there cannot be an index at this root. `root` is rooted at the
 * destination. Throws the same errors as `apply`, or the storage's error.
 */
export async function refreshRootIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  seen: FoundBundles,
): Promise<Finding | null> {
  const found = listedOf(index);
  return settle(context, root, index, async (listed, isUnderLease) => {
    if (listed === null) return listBundles(root, found);
    const differing = [...seen].filter(([path, bundle]) => !isSameBundle(bundle, entryAt(listed, path)));
    const now = new Map<string, ListedBundle | null>();
    for (const [path, bundle] of differing)
      now.set(path, isUnderLease ? await bundleAt(root, path, found) : bundle);
    return withSeen(root, found, listed, now);
  });
}

/** Like `refreshRootIndex`, but reads the catalogs of these bundle paths itself. */
export async function refreshPaths(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  paths: Iterable<string>,
): Promise<Finding | null> {
  const seen = new Map<string, ListedBundle | null>();
  for (const path of paths) seen.set(path, await bundleAt(root, path, listedOf(index)));
  return refreshRootIndex(context, root, index, seen);
}

/**
 * Like `refreshPaths`, for use after commands other than a publication. Does nothing if the destination has
 * no index. Never throws: the command itself has already succeeded, so a failure is only a warning.
 */
export async function refreshIfListed(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  paths: Iterable<string>,
  { dryRun }: { dryRun: boolean },
): Promise<Finding[]> {
  if (!index.destination.rootIndex || dryRun) return [];
  try {
    const warning = await refreshPaths(context, root, index, paths);
    return warning === null ? [] : [warning];
  } catch (error) {
    const { message } = errorRecord(error);
    return [finding('warning', 'root_index_outdated', `the index of the root was not updated: ${message}`)];
  }
}

/** Removes a bundle path's entry from the index, before the bundle is unpublished. */
export async function removeFromIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  path: string,
): Promise<Finding | null> {
  const found = listedOf(index);
  return settle(context, root, index, async (listed) => {
    if (listed === null) return listBundles(root, found, new Set([path]));
    return withSeen(root, found, listed, new Map([[path, null]]));
  });
}

/** Rebuilds the index from scratch, by reading all catalogs. */
export async function rebuildRootIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
): Promise<Finding | null> {
  return settle(context, root, index, async () => listBundles(root, listedOf(index)));
}

function listedOf({ owner, destination: { releases } }: RootIndex): ListedDestination {
  return { owner, releases };
}

function entryAt(listed: readonly ListedBundle[], path: string): ListedBundle | null {
  return listed.find((bundle) => bundle.path === path) ?? null;
}

/**
 * Updates the list. If the list was full and loses an entry, every catalog has to be read to find the next
 * bundle.
 */
async function withSeen(
  root: Storage,
  found: ListedDestination,
  listed: readonly ListedBundle[],
  seen: FoundBundles,
): Promise<ListedBundle[]> {
  const others = listed.filter(({ path }) => !seen.has(path));
  const added = [...seen.values()].filter((bundle) => bundle !== null);
  const bundles = newestBundles([...others, ...added.filter(({ path }) => path !== '.')]);
  const mayLack =
    listed.length >= maxListed && [...seen].some(([path, now]) => isLess(entryAt(listed, path), now));
  if (!mayLack) return bundles;
  const withdrawn = new Set([...seen].flatMap(([path, now]) => (now === null ? [path] : [])));
  return listBundles(root, found, withdrawn);
}

function isLess(before: ListedBundle | null, now: ListedBundle | null): boolean {
  if (before === null) return false;
  return now === null || Date.parse(now.published) < Date.parse(before.published);
}

type ListNow = (listed: readonly ListedBundle[] | null, isUnderLease: boolean) => Promise<ListedBundle[]>;

async function settle(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  listNow: ListNow,
): Promise<Finding | null> {
  const stored = await readState(root);
  const first = await decideOn(root, stored, index, (listed) => listNow(listed, false));
  if (first.obstacle !== null) return refusal(index, first.obstacle);
  if (first.work === null) {
    await sweepAbandoned(context, root, stored.state);
    return null;
  }
  const underLease = async (lease: Lease): Promise<Finding | null> => {
    const { work, obstacle } = await decideOn(root, lease.found, index, (listed) => listNow(listed, true));
    if (obstacle !== null) return refusal(index, obstacle);
    if (work === null) return null;
    lease.check();
    const concurrency = index.destination.fileConcurrency;
    await applyUnderLease(context, work, { storage: root, lease, concurrency });
    return null;
  };
  return decideUnderLease(context, root, underLease);
}

interface RootIndexDecision {
  /** null if there is nothing to update. */
  work: Work | null;
  /** The reason why an index cannot be created here; null if there is none. */
  obstacle: string | null;
}

async function decideOn(
  root: Storage,
  stored: StoredState,
  index: RootIndex,
  listNow: (listed: readonly ListedBundle[] | null) => Promise<ListedBundle[]>,
): Promise<RootIndexDecision> {
  const snapshot = await rootSnapshot(root, stored, index);
  const { obstacle, listed } = snapshot;
  if (obstacle !== null) return { work: null, obstacle };
  const bundles = await listNow(listed);
  return { work: await workFor(snapshot, index, bundles), obstacle: null };
}

/** Returns the work that updates the index, or removes it if no bundle is left. */
async function workFor(
  { catalog, listed }: RootSnapshot,
  index: RootIndex,
  bundles: readonly ListedBundle[],
): Promise<Work | null> {
  const { owner } = index;
  const outputs = catalog?.outputs ?? [];
  const own = outputs.filter((record) => isRootIndexOutput(record) && sameOwner(record.owner, owner));
  const common = { owner, bundle: null, kept: [], clears: false };
  if (bundles.length === 0) {
    const isLeft = own.length > 0 || (catalog?.pending ?? null) !== null;
    if (!isLeft) return null;
    const removed = new Set<string>(rootFileNames);
    const removes = own.map(({ path }) => keyOf(path));
    const untouched = outputs.filter(({ path }) => !removed.has(path));
    return { ...common, action: 'unpublish', writes: [], removes, untouched };
  }
  const writes = await plannedFiles(index, bundles);
  const recorded = byPath(outputs);
  if (listed !== null && writes.every((output) => matchesRecord(recorded.get(output.path), output)))
    return null;
  const planned = new Set<string>(writes.map(({ path }) => path));
  const untouched = outputs.filter(({ path }) => !planned.has(path));
  const action = catalog === null ? 'publish_new' : 'upsert_additive';
  return { ...common, action, writes, removes: [], untouched };
}

function refusal({ destination: { id } }: RootIndex, why: string): Finding {
  const message = `destination "${id}" cannot have an index at its root: ${why}; nothing was changed there`;
  return finding('warning', 'root_index_refused', message);
}
