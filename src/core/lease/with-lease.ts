import { randomUUID } from 'node:crypto';
import type { CatalogState } from '../catalog/catalog.ts';
import type { CoreContext } from '../context.ts';
import { withReleasers } from '../lifecycle.ts';
import type { Storage } from '../storage/storage.ts';
import { acquireLease } from './acquire-lease.ts';
import { defaultLeaseTimes, isContention, type Lease, type LeaseTimes } from './lease.ts';
import { isAbandoned, lockKey } from './lock-file.ts';
import { stagingRoot, sweepFinished } from './staging.ts';

/**
 * Runs `work` under the lease of the bundle path that `storage` is rooted at, and releases the lease whatever
 * happens. Throws as `acquireLease` does, or what `work` throws.
 */
export async function withLease<T>(
  { clock, log, signal }: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  storage: Storage,
  work: (lease: Lease) => Promise<T>,
  times: LeaseTimes = defaultLeaseTimes,
): Promise<T> {
  return withReleasers(async (onRelease) => {
    const attemptId = randomUUID();
    const lease = await acquireLease(storage, {
      clock,
      log,
      times,
      attemptId,
      ...(signal === undefined ? {} : { signal }),
    });
    onRelease(() => lease.release());
    return work(lease);
  });
}

/** Other publishers may be quicker between a decision and the lease; then it is made again, so many times. */
const maxDecisions = 10;

/**
 * Like `withLease`; `work` decides and acts, and begins anew, on the state that it finds then, if another
 * attempt was quicker to take the lease.
 */
export async function decidingUnderLease<T>(
  context: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  storage: Storage,
  work: (lease: Lease) => Promise<T>,
  times: LeaseTimes = defaultLeaseTimes,
): Promise<T> {
  for (let decision = 1; ; decision += 1) {
    try {
      return await withLease(context, storage, work, times);
    } catch (error) {
      if (!isContention(error) || decision === maxDecisions) throw error;
      context.log.info({ storage: storage.label, decision }, 'another publisher was quicker; deciding again');
    }
  }
}

/** How long after a commit a run with nothing to do looks for what the publisher of that commit left. */
const sweptWithinMs = 24 * 3_600_000;

/**
 * Sweeps up after a publisher that was killed between its commit and the release of its lease. There is
 * nothing left to publish then, so its lock and staging would stay until there is. `state` is what was found.
 *
 * On file systems, does nothing unless the holder is known to be dead, or there is staging without a lock;
 * taking the lease and releasing it is what sweeps. An object store has no lock, and the staging of an
 * attempt holds copies of what it replaced: once its intent is gone from the state, the attempt is over and
 * they are of no use. To look for them costs a listing, so it is done on the day after a commit only, and not
 * after a first publication, which replaces nothing; the next publication looks in any case.
 */
export async function sweepAbandoned(
  context: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  storage: Storage,
  state: CatalogState,
): Promise<void> {
  if (storage.facts.rename !== 'none') {
    if (await isLeftBehind(storage)) await withLease(context, storage, async () => undefined);
    return;
  }
  if (state.kind !== 'valid' || state.catalog.generation < 2) return;
  const sinceCommitMs = context.clock.now().getTime() - Date.parse(state.catalog.updatedAt);
  if (sinceCommitMs < sweptWithinMs) await sweepFinished(storage);
}

/** Who holds a lock has its staging beside it, so that staging without a lock is of one who never got it. */
async function isLeftBehind(storage: Storage): Promise<boolean> {
  if ((await storage.stat(lockKey)) !== undefined) return isAbandoned(storage);
  return (await storage.stat(stagingRoot)) !== undefined;
}
