import {
  type AttemptAction,
  bundlesOf,
  type Catalog,
  nextGeneration,
  type OutputRecord,
  type PublishedBundle,
  withPublished,
} from '../../catalog/catalog.ts';
import { createIntent, type Lease } from '../../catalog/lease/lease.ts';
import { stagingRoot, sweepCopies } from '../../catalog/lease/staged-copies.ts';
import { guardWithLease } from '../../catalog/lease/with-lease.ts';
import { isStoredKey } from '../../catalog/parse-fields.ts';
import { type SettledOutputs, settleInterrupted, sweepUnfinished } from '../../catalog/settle-interrupted.ts';
import type { CoreContext } from '../../context.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import { ancestorsOf, isReservedPath } from '../../lib/paths.ts';
import { type Key, keyOf, nameOf } from '../../storage/key.ts';
import type { Change, Storage } from '../../storage/storage.ts';
import { concernedPaths, type PlannedOutput, type Work } from '../plan.ts';
import { Attempt } from './attempt.ts';
import type { AttemptOptions } from './saved-files.ts';

interface ApplyOptions extends AttemptOptions {
  clock: Clock;
}

/**
 * The paths that an attempt wrote, and those that it linked or copied on the server. It did not change any
 * other path.
 */
export interface AppliedPaths {
  written: ReadonlySet<string>;
  linked: ReadonlySet<string>;
}

export const noAppliedPaths: AppliedPaths = { written: new Set(), linked: new Set() };

/**
 * Carries out a plan while holding the lease. The steps are ordered so that the next run can finish the work
 * if the process is killed at any point:
 *
 * 1. Settle: if an earlier attempt was interrupted, check the files that it may have touched and that are not
 *    part of this plan.
 * 2. Intent: write a state that lists every path this attempt may touch. Kept paths are left out, because
 *    their files do not change.
 * 3. Stage: if the storage supports renames, write and verify every output that is not kept.
 * 4. Save: back up every file that is about to be replaced or removed, so that it can be restored.
 * 5. Fence: check that the lease is still held. Then rename the staged files and new directories into place,
 *    assets before pages, and remove the files that are not in the plan. Without renames, write the files in
 *    place. If a file replaces a directory or vice versa, remove whichever is in the way first; its
 *    replacement is already staged.
 * 6. Commit: write the state with the records of the written and kept outputs, and without the intent. If
 *    this unpublishes the bundle path's last output, remove the state instead.
 *
 * If any step fails, the attempt is rolled back: files it created are removed, and the state and any replaced
 * or removed files are restored. If a file cannot be restored, or if a request got no response and the server
 * may still carry it out, the intent stays in place and the next run repeats the work.
 *
 * Throws `lease_lost`, `storage_conflict` or `storage_exists` (another attempt got there first),
 * `commit_unknown`, `body_mismatch` (the source changed), the abort reason of `signal`, or the storage's
 * error.
 */
export async function apply(plan: Work, options: ApplyOptions): Promise<AppliedPaths> {
  const { storage, lease, clock } = options;
  const attempt = new Attempt(plan, options);
  try {
    const { outputs: base, vanished } = await settled(plan, storage, lease);
    const { removes } = plan;
    await lease.writeState(announcedCatalog(plan, lease, base, clock.now()));
    await sweepUnfinished(storage, vanished);
    const inPlace = storage.rename === undefined;
    if (inPlace && lease.found.raw !== null)
      await sweepCopies(storage, { attemptId: lease.attemptId, check: () => lease.check() });
    const layout = await attempt.stage();
    await attempt.save();
    await lease.fence();
    const inTheWay = inPlace ? [] : blockers(plan.writes, removes);
    await attempt.remove(inTheWay);
    await attempt.putInPlace(layout);
    const already = new Set(inTheWay);
    const rest = removes.filter((key) => !already.has(key));
    // Writing in place may have taken long enough for the lease to expire.
    if (inPlace && rest.length > 0) await lease.fence();
    await attempt.remove(rest);
    if (plan.clears) await removeEmptyDirectories(storage);
    await commit(plan, attempt, lease, committedCatalog(plan, lease, base, clock.now()));
    return attempt.applied;
  } catch (error) {
    const failure = await causeOf(error, lease);
    await attempt.undo(failure);
    throw failure;
  }
}

interface LeasedOptions extends Omit<AttemptOptions, 'log' | 'signal'> {
  /** The part of the work to check. Default: all of it. */
  checked?: Pick<Work, 'writes' | 'removes'>;
}

/**
 * Checks that nothing is in the way, then applies the work. The caller must hold the lease: nothing is
 * changed once it is lost. Throws the same errors as `refuseObstructed` and `apply`.
 */
export async function applyUnderLease(
  { clock, log, signal }: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  work: Work,
  { storage, lease, checked = work, ...options }: LeasedOptions,
): Promise<AppliedPaths> {
  const stateBytes = lease.found.raw?.size ?? 0;
  await refuseObstructed(storage, checked, { stateBytes, isUnderLease: true });
  return apply(work, { ...options, storage: guardWithLease(storage, lease), lease, clock, log, signal });
}

/**
 * Writes the new state, or removes it when the last output is gone. On an object store, the next attempt can
 * clean up leftover copies only if there is a state, so delete the copies before removing it. If removing the
 * state then fails, its intent is still there.
 */
async function commit(plan: Work, attempt: Attempt, lease: Lease, catalog: Catalog): Promise<void> {
  if (plan.action === 'unpublish' && catalog.outputs.length === 0) {
    await attempt.discardOrThrow();
    await lease.removeState();
  } else {
    await lease.writeState(catalog);
    await attempt.discard();
  }
}

/**
 * Returns the records of paths outside the plan, and any files that an interrupted attempt never finished.
 */
async function settled(plan: Work, storage: Storage, { found: { state } }: Lease): Promise<SettledOutputs> {
  if (plan.clears) return { outputs: [], vanished: [] };
  if (state.kind !== 'valid' || state.catalog.pending === null)
    return { outputs: plan.untouched, vanished: [] };
  return settleInterrupted(storage, state.catalog, concernedPaths(plan));
}

/** Returns the planned removals that are in the way of a planned file or directory. */
function blockers(writes: readonly PlannedOutput[], removes: readonly Key[]): Key[] {
  const files = new Set<string>(writes.map(({ path }) => path));
  const directories = new Set<string>();
  for (const path of files) for (const ancestor of ancestorsOf(path)) directories.add(ancestor);
  return removes.filter(
    (key) => directories.has(key) || [...ancestorsOf(key)].some((ancestor) => files.has(ancestor)),
  );
}

/**
 * Returns the error to report. If staged files are missing, the lease was probably lost, so check that first.
 */
async function causeOf(error: unknown, lease: Lease): Promise<unknown> {
  if (!hasCode(error, 'storage_not_found')) return error;
  return lease.fence().then(
    () => error,
    (lost: unknown) => (hasCode(lost, 'lease_lost') ? lost : error),
  );
}

/*
 * The two catalogs that an attempt writes: one with its intent, and one that commits it. `base` contains the
 * records of paths outside the plan.
 */

/**
 * Returns the catalog to write before anything else. Its intent lists every path that the attempt will write
 * or remove. The old records of those paths and of kept paths stay in it until the commit.
 */
function announcedCatalog(plan: Work, lease: Lease, base: readonly OutputRecord[], now: Date): Catalog {
  const startedAt = now.toISOString();
  const pending = createIntent(lease, {
    owner: plan.owner,
    action: plan.action as AttemptAction,
    startedAt,
    outputs: plan.writes.map((output) => recordOf(output, startedAt)),
    // Keys that are not allowed in a state belong to unmanaged content. If this attempt crashes, they simply
    // stay unmanaged.
    removes: plan.removes.filter(isStoredKey),
  });
  const concerned = concernedPaths(plan);
  const { state } = lease.found;
  const before =
    state.kind === 'valid' && !plan.clears
      ? state.catalog.outputs.filter(({ path }) => concerned.has(path))
      : [];
  const updatedAt = state.kind === 'valid' ? state.catalog.updatedAt : startedAt;
  const bundles = bundlesIn(lease);
  return {
    generation: generationOf(plan, lease),
    updatedAt,
    bundles,
    outputs: [...base, ...before],
    pending,
  };
}

/** Returns the catalog that commits the attempt. */
function committedCatalog(plan: Work, lease: Lease, base: readonly OutputRecord[], now: Date): Catalog {
  const updatedAt = now.toISOString();
  const published = [...plan.writes, ...plan.kept].map((output) => recordOf(output, updatedAt));
  const outputs = [...base, ...published];
  const before = bundlesIn(lease);
  const bundles =
    plan.bundle === null ? before : withPublished(before, { owner: plan.owner, ...plan.bundle });
  return {
    generation: nextGeneration(generationOf(plan, lease)),
    updatedAt,
    bundles: bundlesOf(bundles, outputs),
    outputs,
    pending: null,
  };
}

/**
 * Returns the current generation. Anything published without a catalog in the current format counts as
 * generation 1.
 */
function generationOf({ action }: Work, { found: { state } }: Lease): number {
  if (state.kind === 'valid') return state.catalog.generation;
  return action === 'publish_new' ? 0 : 1;
}

function bundlesIn({ found: { state } }: Lease): PublishedBundle[] {
  return state.kind === 'valid' ? state.catalog.bundles : [];
}

function recordOf(output: PlannedOutput, updatedAt: string): OutputRecord {
  const { path, owner, source, kind, digest, size, generated, url } = output;
  return { path, owner, source, kind, digest, size, updatedAt, generated, url };
}

/**
 * Removes every directory that has no files in it, at any depth. A forced replacement should leave nothing
 * behind but its own outputs, and removing a file does not clean up directories that never held an output.
 * Does nothing on object stores. Throws the storage's error.
 */
export async function removeEmptyDirectories(storage: Storage): Promise<void> {
  if (storage.rename !== undefined) await removeIfEmpty(storage, '');
}

/** Removes the directory if there are no files in it. Returns true if that was the case. */
async function removeIfEmpty(storage: Storage, directory: Key | ''): Promise<boolean> {
  let isEmpty = true;
  const directories: Key[] = [];
  for await (const { key, type } of storage.list(directory, { recursive: false })) {
    if (type === 'directory' && !isReservedPath(nameOf(key))) directories.push(key);
    else isEmpty = false;
  }
  for (const below of directories) if (!(await removeIfEmpty(storage, below))) isEmpty = false;
  if (isEmpty && directory !== '') await storage.removeTree(directory);
  return isEmpty;
}

/**
 * Throws the error that would make applying this plan fail, without writing anything: a directory that cannot
 * be created or written to, a different file system, a name that is too long, or too little space. `storage`
 * is rooted at the bundle path, and `stateBytes` is the size of the current state. Without the lease, free
 * space is not checked while there are staged files, because a later cleanup may delete them.
 */
export async function refuseObstructed(
  storage: Storage,
  plan: Pick<Work, 'writes' | 'removes'>,
  { stateBytes, isUnderLease }: { stateBytes: number; isUnderLease: boolean },
): Promise<void> {
  const bytes = plan.writes.reduce((sum, { size }) => sum + size, stateBytes);
  const isRoomKnown = isUnderLease || !(await holdsAnything(storage));
  const obstacle = await storage.obstacleTo({ ...changeOf(plan), bytes: isRoomKnown ? bytes : null });
  if (obstacle !== null) throw obstacle;
}

/** Leaves out writes that are blocked only by files the plan removes anyway. */
function changeOf({ writes, removes }: Pick<Work, 'writes' | 'removes'>): Omit<Change, 'bytes'> {
  const removed = new Set<string>(removes);
  const free = writes.filter(({ path }) => ![...ancestorsOf(path)].some((ancestor) => removed.has(ancestor)));
  return { writes: free.map(({ path }) => keyOf(path)), removes, from: '' };
}

async function holdsAnything(storage: Storage): Promise<boolean> {
  if (storage.rename === undefined) return false;
  for await (const _ of storage.list(stagingRoot, { recursive: false })) return true;
  return false;
}
