import { randomUUID } from 'node:crypto';
import type { Holder } from '../catalog/catalog.ts';
import { hasCode, WaybillError } from '../errors.ts';
import { bytesBody } from '../storage/body.ts';
import type { Storage } from '../storage/storage.ts';
import { startHeartbeat, type Heartbeat } from './heartbeat.ts';
import { giveBack, holdLock } from './held-lock.ts';
import { watchLease } from './holder-watch.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { createLock, holderIn, lockKey, ownsLock, readLock, renewLock } from './lock-file.ts';
import { stolenLockKey, straysInStaging } from './staging.ts';
import { isKnownDead, newHolder, retire } from './this-holder.ts';

/** So often may the unfinished lock vanish, swept by others, before something else must be wrong. */
const mostSweeps = 20;

/**
 * Takes the lease on storages that can rename: the file `.publisher.lock`, created exclusively. Throws as
 * `acquireLease` does.
 *
 * free → held: one contender creates the lock, and renews it from then on. It sweeps every staging directory
 * but its own, and reads the lock again: a former holder that was suspended may have renamed its renewal over
 * the new lock in between; the sweep takes away its staging, and with that every further step. Only a
 * contender whose lock is still its own after the sweep is the holder.
 *
 * held → free: the holder removes the lock.
 *
 * held → stolen: a contender that knows the holder to be dead, or has seen the lock unchanged for
 * `staleAfterMs`, renames the lock aside, and then contends for a free lock again.
 *
 * A contender may itself be suspended at any of these steps, and continue while another is the holder. So
 * each change follows a check that this process has been running, with nothing awaited in between; and
 * staging directories are listed before the lock is read, and made only by holders, so that a contender whose
 * lock was stolen never removes the staging of the thief.
 */
export async function acquireLockLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const heartbeat = startHeartbeat(storage, options);
  const holder = newHolder();
  const lock = { isCreated: false };
  try {
    await takeLock(storage, options, holder, heartbeat, () => (lock.isCreated = true));
  } catch (error) {
    if (lock.isCreated) await giveBack(storage, options, holder, heartbeat);
    await heartbeat.stop();
    retire(holder);
    throw error;
  }
  return holdLock(storage, options, holder, heartbeat);
}

/**
 * Returns once the lock of `holder` is there and everything that others left is swept. `created` is called
 * when there is a lock to give back.
 */
async function takeLock(
  storage: Storage,
  { clock, attemptId, times, signal }: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
  created: () => void,
): Promise<void> {
  const judge = watchLease(times, clock.monotonic());
  let sweeps = 0;
  for (;;) {
    signal?.throwIfAborted();
    heartbeat.check();
    const since = clock.monotonic();
    try {
      if (await createLock(storage, holder)) {
        created();
        heartbeat.renewBy(renewLock(storage, holder, attemptId), since);
        if (await swept(storage, attemptId, holder, heartbeat)) return;
        heartbeat.renewBy(async () => undefined, clock.monotonic());
        continue;
      }
    } catch (error) {
      sweeps += 1;
      if (!hasCode(error, 'storage_not_found') || sweeps === mostSweeps) throw error;
    }
    const text = await readLock(storage);
    const other = text === null ? null : holderIn(text);
    // A lock that vanished between the two calls counts as a sign of life, by a text that is new each time:
    // even a lock that can never be read then ends the wait.
    const verdict =
      other !== null && isKnownDead(other) ? 'stale' : judge(text ?? randomUUID(), clock.monotonic());
    if (verdict === 'busy') throw destinationBusy(storage, other);
    if (text !== null && verdict === 'stale') await stealLock(storage, attemptId, text, heartbeat);
    else {
      if (text === null) await refuseOtherThanFile(storage);
      await clock.sleep(text === null ? times.pollEveryMs / 50 : times.pollEveryMs, signal);
    }
  }
}

/** Sweeps staging; false if the lock is not that of `holder` any more. */
async function swept(
  storage: Storage,
  attemptId: string,
  holder: Holder,
  heartbeat: Heartbeat,
): Promise<boolean> {
  const strays = await straysInStaging(storage, attemptId);
  if (!(await ownsLock(storage, holder))) return false;
  if (strays.length === 0) return true;
  for (const { key, type } of strays) {
    heartbeat.check();
    await (type === 'directory' ? storage.removeTree(key) : storage.remove(key));
  }
  return ownsLock(storage, holder);
}

/**
 * Renames the stale lock aside. If it turns out that another lock than the stale one was taken, it is put
 * back, unless a third contender was quicker: then its owner finds out by its own fence.
 */
async function stealLock(
  storage: Storage,
  attemptId: string,
  stale: string,
  heartbeat: Heartbeat,
): Promise<void> {
  const aside = stolenLockKey(attemptId);
  heartbeat.check();
  try {
    await storage.rename([{ from: lockKey, to: aside }]);
    const taken = await readLock(storage, aside);
    if (taken !== null && taken !== stale) await storage.write(lockKey, bytesBody(taken), { mode: 'create' });
  } catch (error) {
    // Gone already, or taken again already: in both cases another contender was first.
    if (!hasCode(error, 'storage_not_found') && !hasCode(error, 'storage_exists')) throw error;
  }
}

/** A link without a target or the like can neither be created nor read as a lock, however long one waits. */
async function refuseOtherThanFile(storage: Storage): Promise<void> {
  const found = await storage.stat(lockKey);
  if (found === undefined || found.type === 'file') return;
  throw new WaybillError('storage_permanent', `${storage.label}: "${lockKey}" is not a file`, {
    hint: 'remove it; only publishers make a file of that name',
  });
}
