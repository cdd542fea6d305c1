import { randomUUID } from 'node:crypto';
import type { CoreContext } from '../context.ts';
import { withReleasers } from '../lifecycle.ts';
import type { Storage } from '../storage/storage.ts';
import { acquireLease } from './acquire-lease.ts';
import { defaultLeaseTimes, type Lease, type LeaseTimes } from './lease.ts';
import { isAbandoned } from './lock-file.ts';

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

/**
 * Sweeps up after a publisher that was killed between its commit and the release of its lease. There is
 * nothing left to publish then, so its lock and staging would stay until there is. Does nothing unless the
 * holder is known to be dead; taking the lease and releasing it is what sweeps.
 */
export async function sweepAbandoned(
  context: Pick<CoreContext, 'clock' | 'log' | 'signal'>,
  storage: Storage,
): Promise<void> {
  if (storage.facts.rename !== 'none' && (await isAbandoned(storage)))
    await withLease(context, storage, async () => undefined);
}
