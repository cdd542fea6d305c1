import type { Catalog } from '../../catalog/catalog.ts';
import { settleInterrupted, sweepUnfinished, type Settled } from '../../catalog/settle-interrupted.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import type { Lease } from '../../catalog/lease/lease.ts';
import { sweepCopies } from '../../catalog/lease/staging.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import type { Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { concernedPaths, type PlannedOutput, type Work } from '../plan.ts';
import { announcedCatalog, committedCatalog } from './attempt-catalogs.ts';
import type { AttemptOptions } from './attempt-options.ts';
import { removeEmptyDirectories } from './empty-directories.ts';
import { Attempt } from './attempt.ts';

export interface ApplyOptions extends AttemptOptions {
  clock: Clock;
}

export interface Applied {
  outputsWritten: number;
  /** Planned outputs whose files did not change. */
  outputsKept: number;
  outputsRemoved: number;
  bytesWritten: number;
  bytesKept: number;
}

/**
 * Executes a plan under a lease. After a kill at any moment, the next run completes the work:
 *
 * 1. Settle: if an earlier attempt was interrupted, read the files that it may have touched and that this
 * plan
 *    does not touch.
 * 2. Intent: write a state that names every path that this attempt may touch. Kept paths are not among them,
 *    because their files do not change.
 * 3. Stage: write and verify every output that is not kept, if the storage can rename.
 * 4. Save: keep every file that will be replaced or removed, so that it can be restored.
 * 5. Fence: check that the lease is still held. Then rename the staged files and new directories into place,
 *    assets before pages, and remove the files that the plan omits. If the storage cannot rename, write the
 *    files in place. If a directory becomes a file or a file a directory, the blocking file is removed first.
 *    Everything that replaces it is already staged.
 * 6. Commit: write the state with the records of the written and kept outputs and without the intent. If the
 *    last output of the bundle path was unpublished, remove the state instead.
 *
 * A failure at any step is undone: created files are removed, replaced and removed files are restored, and so
 * is the state. The intent remains, and the next run repeats the work, if a file could not be restored, or if
 * a change got no response, so that the server may still carry it out.
 *
 * Throws `lease_lost`, `storage_conflict` or `storage_exists` (another attempt was first), `commit_unknown`,
 * `body_mismatch` (the source changed), the reason of `signal`, or the storage's error.
 */
export async function apply(plan: Work, options: ApplyOptions): Promise<Applied> {
  const { storage, lease, clock } = options;
  const attempt = new Attempt(plan, options);
  try {
    const { outputs: base, vanished } = await settled(plan, storage, lease);
    const { removes } = plan;
    await lease.writeState(announcedCatalog(plan, lease, base, clock.now()));
    await sweepUnfinished(storage, vanished);
    const inPlace = storage.facts.rename === 'none';
    if (inPlace && lease.found.raw !== null)
      await sweepCopies(storage, { attemptId: lease.attemptId, check: () => lease.check() });
    await attempt.stage();
    await attempt.save();
    await lease.fence();
    const inTheWay = inPlace ? [] : blockers(plan.writes, removes);
    await attempt.remove(inTheWay);
    await attempt.putInPlace();
    const already = new Set(inTheWay);
    const rest = removes.filter((key) => !already.has(key));
    // Writing in place may have taken long.
    if (inPlace && rest.length > 0) await lease.fence();
    await attempt.remove(rest);
    if (plan.clears) await removeEmptyDirectories(storage);
    await commit(plan, attempt, lease, committedCatalog(plan, lease, base, clock.now()));
    return {
      outputsWritten: plan.writes.length,
      outputsKept: plan.kept.length,
      outputsRemoved: removes.length,
      bytesWritten: bytesOf(plan.writes),
      bytesKept: bytesOf(plan.kept),
    };
  } catch (error) {
    const failure = await causeOf(error, lease);
    await attempt.undo(failure);
    throw failure;
  }
}

/**
 * Writes or removes the state. Copies in an object store that remain next to a state are swept by the next
 * attempt. Without a state no attempt would look for them, so they are removed before it. If removing the
 * state then fails, its intent remains.
 */
async function commit(plan: Work, attempt: Attempt, lease: Lease, catalog: Catalog): Promise<void> {
  if (plan.action === 'unpublish' && catalog.outputs.length === 0) {
    await attempt.discardSurely();
    await lease.removeState();
  } else {
    await lease.writeState(catalog);
    await attempt.discard();
  }
}

/** The records of paths outside the plan, and the files that an interrupted attempt did not finish. */
async function settled(plan: Work, storage: Storage, { found: { state } }: Lease): Promise<Settled> {
  if (plan.clears) return { outputs: [], vanished: [] };
  if (state.kind !== 'valid' || state.catalog.pending === null)
    return { outputs: plan.untouched, vanished: [] };
  return settleInterrupted(storage, state.catalog, concernedPaths(plan));
}

/** The files to remove that block a planned file or directory. */
function blockers(writes: readonly PlannedOutput[], removes: readonly Key[]): Key[] {
  const files = new Set<string>(writes.map(({ path }) => path));
  const directories = new Set<string>();
  for (const path of files) for (const ancestor of ancestorsOf(path)) directories.add(ancestor);
  return removes.filter(
    (key) => directories.has(key) || [...ancestorsOf(key)].some((ancestor) => files.has(ancestor)),
  );
}

/** Missing staged files usually mean that the lease was lost. Reports that instead, if it is so. */
async function causeOf(error: unknown, lease: Lease): Promise<unknown> {
  if (!hasCode(error, 'storage_not_found')) return error;
  return lease.fence().then(
    () => error,
    (lost: unknown) => (hasCode(lost, 'lease_lost') ? lost : error),
  );
}

function bytesOf(outputs: readonly PlannedOutput[]): number {
  return outputs.reduce((sum, { size }) => sum + size, 0);
}
