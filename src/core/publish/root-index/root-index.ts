import { isOfRootIndex } from '../../catalog/root-index-records.ts';
import { readState, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import { errorRecord } from '../../errors.ts';
import { finding, type Finding } from '../../finding.ts';
import {
  isSameBundle,
  mostListed,
  newestOf,
  type ListedBundle,
} from '../../generate/root-index/listed-bundle.ts';
import { sameOwner } from '../../identity.ts';
import type { Lease, LeaseTimes } from '../../lease/lease.ts';
import { whileHeld } from '../../lease/while-held.ts';
import { decidingUnderLease, sweepAbandoned } from '../../lease/with-lease.ts';
import { keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { apply } from '../apply/apply.ts';
import { refuseObstructed } from '../apply/preflight.ts';
import { byPath, isRecordedAs } from '../decision/recorded-as.ts';
import type { Work } from '../plan.ts';
import { bundleAt, everyBundle, type Listed } from './listed-state.ts';
import { plannedFiles, rootFileNames, type RootIndex } from './planned-files.ts';
import { standingOf, type RootStanding } from './root-standing.ts';

/*
 * The index of a destination's root: a page and feeds of what was published below it last. It is a bundle
 * path of its own, `.`, written by the protocol as any other, after the bundles that it lists; what it says
 * of one is what the catalog of that one says. So an update that was killed, or never came, is made up for by
 * the next that looks at the same bundle. What goes is taken out of it first: nothing that is listed is ever
 * missing.
 */

/** What was seen of bundle paths: the bundle there, or null if there is none. */
export type Seen = ReadonlyMap<string, ListedBundle | null>;

interface Options {
  leaseTimes?: LeaseTimes | undefined;
}

/**
 * Makes the index say of these bundle paths what their catalogs say; they are read again under the lease, so
 * that of two updates the later one is right. Without a difference, nothing is written and no lease is taken.
 * The warning, if there can be no index at this root. `root` is rooted at the destination. Throws what
 * `apply` throws, or the storage's own error.
 */
export async function refreshRootIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  seen: Seen,
  options: Options = {},
): Promise<Finding | null> {
  const found = listedOf(index);
  return settle(context, root, index, options, async (listed, isUnderLease) => {
    if (listed === null) return everyBundle(root, found);
    const differing = [...seen].filter(([path, bundle]) => !isSameBundle(bundle, at(listed, path)));
    const now = new Map<string, ListedBundle | null>();
    for (const [path, bundle] of differing)
      now.set(path, isUnderLease ? await bundleAt(root, path, found) : bundle);
    return withSeen(root, found, listed, now);
  });
}

/** As `refreshRootIndex`; what is at these paths is looked up. */
export async function refreshPaths(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  paths: Iterable<string>,
  options: Options = {},
): Promise<Finding | null> {
  const seen = new Map<string, ListedBundle | null>();
  for (const path of paths) seen.set(path, await bundleAt(root, path, listedOf(index)));
  return refreshRootIndex(context, root, index, seen, options);
}

/**
 * As `refreshPaths`, after something else than a publication has changed these paths, if there is an index.
 * Never throws: that has succeeded, and what fails here is a warning, too.
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
    return [
      finding(
        'warning',
        'root_index_outdated',
        `the index of the root was not brought up to date: ${message}`,
      ),
    ];
  }
}

/** Takes a bundle path out of the index before it is removed. */
export async function withdraw(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  path: string,
  options: Options = {},
): Promise<Finding | null> {
  const found = listedOf(index);
  return settle(context, root, index, options, async (listed) => {
    if (listed === null) return everyBundle(root, found, new Set([path]));
    return withSeen(root, found, listed, new Map([[path, null]]));
  });
}

/** Makes the index anew of all that is published. */
export async function rebuildRootIndex(
  context: CoreContext,
  root: Storage,
  index: RootIndex,
  options: Options = {},
): Promise<Finding | null> {
  return settle(context, root, index, options, async () => everyBundle(root, listedOf(index)));
}

function listedOf({ owner, destination: { releases } }: RootIndex): Listed {
  return { owner, releases };
}

function at(listed: readonly ListedBundle[], path: string): ListedBundle | null {
  return listed.find((bundle) => bundle.path === path) ?? null;
}

/** A list that is full does not say what comes after its last; if it loses one, all has to be looked at. */
async function withSeen(
  root: Storage,
  found: Listed,
  listed: readonly ListedBundle[],
  seen: Seen,
): Promise<ListedBundle[]> {
  const kept = listed.filter(({ path }) => !seen.has(path));
  const added = [...seen.values()].filter((bundle) => bundle !== null);
  const bundles = newestOf([...kept, ...added.filter(({ path }) => path !== '.')]);
  const mayLack =
    listed.length >= mostListed && [...seen].some(([path, now]) => isLess(at(listed, path), now));
  if (!mayLack) return bundles;
  const withdrawn = new Set([...seen].flatMap(([path, now]) => (now === null ? [path] : [])));
  return everyBundle(root, found, withdrawn);
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
  { leaseTimes }: Options,
  listNow: ListNow,
): Promise<Finding | null> {
  const { clock, log, signal } = context;
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
    const stateBytes = lease.found.raw?.size ?? 0;
    await refuseObstructed(root, work, { stateBytes, isUnderLease: true });
    await apply(work, {
      ...{ storage: whileHeld(root, lease), lease, clock, log },
      concurrency: index.destination.fileConcurrency,
      ...(signal === undefined ? {} : { signal }),
    });
    return null;
  };
  return decidingUnderLease(context, root, underLease, leaseTimes);
}

interface Decided {
  /** Null: it is as it should be. */
  work: Work | null;
  obstacle: string | null;
}

async function decideOn(
  root: Storage,
  stored: StoredState,
  index: RootIndex,
  listNow: (listed: readonly ListedBundle[] | null) => Promise<ListedBundle[]>,
): Promise<Decided> {
  const standing = await standingOf(root, stored, index);
  const { obstacle, listed } = standing;
  if (obstacle !== null) return { work: null, obstacle };
  const bundles = await listNow(listed);
  return { work: await workFor(standing, index, bundles), obstacle: null };
}

/** Of an index that lists nothing, nothing is left. */
async function workFor(
  { catalog, listed }: RootStanding,
  index: RootIndex,
  bundles: readonly ListedBundle[],
): Promise<Work | null> {
  const { owner } = index;
  const outputs = catalog?.outputs ?? [];
  const own = outputs.filter((record) => isOfRootIndex(record) && sameOwner(record.owner, owner));
  const common = { owner, bundle: null, kept: [], clears: false };
  if (bundles.length === 0) {
    const isLeft = own.length > 0 || (catalog?.pending ?? null) !== null;
    if (!isLeft) return null;
    const goes = new Set<string>(rootFileNames);
    const removes = own.map(({ path }) => keyOf(path));
    const untouched = outputs.filter(({ path }) => !goes.has(path));
    return { ...common, action: 'unpublish', writes: [], removes, untouched };
  }
  const writes = await plannedFiles(index, bundles);
  const recorded = byPath(outputs);
  if (listed !== null && writes.every((output) => isRecordedAs(recorded.get(output.path), output)))
    return null;
  const planned = new Set<string>(writes.map(({ path }) => path));
  const untouched = outputs.filter(({ path }) => !planned.has(path));
  const action = catalog === null ? 'publish_new' : 'upsert_additive';
  return { ...common, action, writes, removes: [], untouched };
}

function refusal({ destination: { id } }: RootIndex, why: string): Finding {
  const message = `destination "${id}" gets no index at its root: ${why}; it stays as it is`;
  return finding('warning', 'root_index_refused', message);
}
