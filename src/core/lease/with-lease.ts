import { randomUUID } from 'node:crypto';
import type { CoreContext } from '../context.ts';
import { withReleasers } from '../lifecycle.ts';
import type { Storage } from '../storage/storage.ts';
import { acquireLease } from './acquire-lease.ts';
import { defaultLeaseTimes, type Lease, type LeaseTimes } from './lease.ts';
import { isAbandoned } from './lock-lease.ts';

/**
 * Runs `work` under the lease of the bundle path that `storage` is rooted at, and gives the lease back
 * whatever happens.
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

/**
 * Where a publisher was killed between its commit and the end of its lease, there is nothing left to publish,
 * and its lock and staging would lie there until there is. Taking and giving back the lease is what sweeps
 * them up.
 */
export async function sweepAbandoned(
  context: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  storage: Storage,
): Promise<void> {
  if (storage.facts.rename !== 'none' && (await isAbandoned(storage)))
    await withLease(context, storage, async () => undefined);
}
