import { randomUUID } from 'node:crypto';
import { hasCode } from '../errors.ts';
import { bytesBody } from '../storage/body.ts';
import { joinKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { holdLock } from './held-lock.ts';
import { watchLease } from './holder-watch.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { createLock, holderIn, lockKey, ownsLock, readLock } from './lock-file.ts';
import { stagingOf, sweepStaging } from './staging.ts';
import { isKnownDead, newHolder, retire } from './this-holder.ts';

/**
 * Takes the lease on storages that can rename: the file `.publisher.lock`, created exclusively. Throws as
 * `acquireLease` does.
 *
 * free → held: one contender creates the lock. It then sweeps every staging directory but its own, and reads
 * the lock again: a former holder that was suspended may have renamed its renewal over the new lock in
 * between; the sweep takes away its staging, and with that every further step. Only a contender whose lock is
 * still its own after the sweep is the holder.
 *
 * held → free: the holder removes the lock.
 *
 * held → stolen: a contender that knows the holder to be dead, or has seen the lock unchanged for
 * `staleAfterMs`, renames the lock aside into its own staging, and then contends for a free lock again.
 */
export async function acquireLockLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const { clock, attemptId, times, signal } = options;
  const holder = newHolder();
  const judge = watchLease(times, clock.monotonic());
  try {
    for (;;) {
      signal?.throwIfAborted();
      if (await createLock(storage, holder)) {
        await sweepStaging(storage, attemptId);
        if (await ownsLock(storage, holder)) return await holdLock(storage, options, holder);
        continue;
      }
      const text = await readLock(storage);
      const other = text === null ? null : holderIn(text);
      // A lock that vanished between the two calls counts as a sign of life, by a text that is new each time:
      // even a lock that can never be read then ends the wait.
      const verdict =
        other !== null && isKnownDead(other) ? 'stale' : judge(text ?? randomUUID(), clock.monotonic());
      if (text === null && verdict === 'wait') continue;
      if (text !== null && verdict === 'stale') await stealLock(storage, attemptId, text);
      else if (verdict === 'busy') throw destinationBusy(storage, other);
      else await clock.sleep(times.pollEveryMs, signal);
    }
  } catch (error) {
    retire(holder);
    throw error;
  }
}

/**
 * Renames the stale lock aside. If it turns out that another lock than the stale one was taken, it is put
 * back, unless a third contender was quicker: then its owner finds out by its own fence.
 */
async function stealLock(storage: Storage, attemptId: string, stale: string): Promise<void> {
  const aside = joinKey(stagingOf(attemptId), 'stolen.lock');
  try {
    await storage.rename([{ from: lockKey, to: aside }]);
    const taken = await readLock(storage, aside);
    if (taken !== null && taken !== stale) await storage.write(lockKey, bytesBody(taken), { mode: 'create' });
  } catch (error) {
    // Gone already, or taken again already: in both cases another contender was first.
    if (!hasCode(error, 'storage_not_found') && !hasCode(error, 'storage_exists')) throw error;
  }
}
