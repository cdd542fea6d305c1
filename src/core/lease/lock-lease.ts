import { randomUUID } from 'node:crypto';
import { hasCode } from '../errors.ts';
import { bytesBody, readAll } from '../storage/body.ts';
import { joinKey, nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, Holder } from '../catalog/catalog.ts';
import { lockName, stagingName } from '../reserved-names.ts';
import { holderToJson, parseHolder, serialiseCatalog } from '../catalog/codec.ts';
import { startHeartbeat } from './heartbeat.ts';
import { isKnownDead, newHolder, retire } from './this-holder.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { readRaw, readState, stateKey } from '../catalog/store.ts';
import { watchLease } from './holder-watch.ts';
import { settleWrite } from './settle-write.ts';

const lockKey = joinKey('', lockName);
const stagingRoot = joinKey('', stagingName);
const lockLimitBytes = 64 * 1024;

/** Where an attempt keeps what is not yet in place. */
export function stagingOf(attemptId: string): Key {
  return joinKey(stagingRoot, attemptId);
}

/**
 * The lease on storages that can rename: the file `.publisher.lock`, created exclusively.
 *
 * free → held: one contender creates the lock. It then sweeps every staging directory but its own, and reads
 * the lock again: a former holder that was asleep may have renewed over it in between, and loses its staging,
 * and with it every further step, by that sweep. Only a lock that is still its own after the sweep makes it
 * the holder. held → free: the holder removes the lock. held → stolen: a contender that knows the holder to
 * be dead, or has seen the lock unchanged for `staleAfterMs`, renames it aside into its own staging and is a
 * contender for a free lock again.
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
        if (await isMine(storage, holder)) return await holdLock(storage, options, holder);
        continue;
      }
      const text = await readLock(storage);
      const other = text === null ? null : holderIn(text);
      // A lock that went away between the two looks counts as a sign of life; were it there and unreadable
      // for ever, this would still end.
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
 * True where a lock lies at the bundle path whose holder is known to be dead: the next lease would sweep up
 * after it.
 */
export async function isAbandoned(storage: Storage): Promise<boolean> {
  if ((await storage.stat(lockKey)) === undefined) return false;
  const text = await readLock(storage);
  const holder = text === null ? null : holderIn(text);
  return holder !== null && isKnownDead(holder);
}

/** True where the lock is ours now. A lost answer is settled by reading back. */
async function createLock(storage: Storage, holder: Holder): Promise<boolean> {
  try {
    await storage.write(lockKey, bytesBody(lockText(holder, 0)), { mode: 'create' });
    return true;
  } catch (error) {
    if (hasCode(error, 'storage_exists')) return false;
    // A sweeper removed the half-made file: somebody has just taken the lock.
    if (hasCode(error, 'storage_not_found')) return false;
    if (hasCode(error, 'storage_transient') && (await isMine(storage, holder))) return true;
    throw error;
  }
}

/**
 * A lock that turns out to be another than the stale one is put back, unless a third contender was quicker:
 * then its owner notices by itself.
 */
async function stealLock(storage: Storage, attemptId: string, stale: string): Promise<void> {
  const aside = joinKey(stagingOf(attemptId), 'stolen.lock');
  try {
    await storage.rename([{ from: lockKey, to: aside }]);
    const taken = (await readAll(storage, aside, lockLimitBytes)).toString();
    if (taken !== stale) await storage.write(lockKey, bytesBody(taken), { mode: 'create' });
  } catch (error) {
    // Gone already, or taken again already: both mean that another contender was first.
    if (!hasCode(error, 'storage_not_found') && !hasCode(error, 'storage_exists')) throw error;
  }
}

async function sweepStaging(storage: Storage, attemptId: string): Promise<void> {
  const strays: { key: Key; type: string }[] = [];
  for await (const { key, type } of storage.list(stagingRoot, { recursive: false }))
    if (nameOf(key) !== attemptId) strays.push({ key, type });
  for (const { key, type } of strays)
    await (type === 'directory' ? storage.removeTree(key) : storage.remove(key));
}

async function holdLock(storage: Storage, options: LeaseOptions, holder: Holder): Promise<Lease> {
  const { attemptId } = options;
  const staging = stagingOf(attemptId);
  const found = await readState(storage).catch(async (error: unknown) => {
    await giveBack();
    throw error;
  });
  let renewals = 0;
  let states = 0;

  const heartbeat = startHeartbeat(storage, options, async () => {
    renewals += 1;
    const next = joinKey(staging, 'renewed.lock');
    await storage.write(next, bytesBody(lockText(holder, renewals)), { mode: 'scratch' });
    await fence();
    // The source lies in our staging: where the lease was taken over while we slept, it has been swept, and
    // this fails.
    await storage.rename([{ from: next, to: lockKey }]);
  });

  return {
    attemptId,
    holder,
    signal: heartbeat.signal,
    found,
    fence,
    check: () => heartbeat.check(),

    async writeState(catalog: Catalog): Promise<void> {
      await replaceState(serialiseCatalog(catalog), { isLast: catalog.pending === null });
    },

    async restoreState(): Promise<void> {
      if (found.raw !== null) await replaceState(found.raw, { isLast: true });
      else {
        heartbeat.check();
        await fence();
        await storage.remove(stateKey);
      }
    },

    async release(): Promise<void> {
      await heartbeat.stop();
      await giveBack();
    },
  };

  async function giveBack(): Promise<void> {
    retire(holder);
    try {
      await storage.removeTree(staging);
      if (await isMine(storage, holder)) await storage.remove(lockKey);
    } catch (error) {
      options.log.warn(
        { storage: storage.label, err: error },
        'the lease was not given back; the next attempt takes it over',
      );
    }
  }

  async function fence(): Promise<void> {
    if (!(await isMine(storage, holder))) throw heartbeat.lose('another publisher holds it');
  }

  /** Where nothing comes after it that would need it on the disk first, `isLast` asks for that. */
  async function replaceState(bytes: Buffer, { isLast }: { isLast: boolean }): Promise<void> {
    states += 1;
    const next = joinKey(staging, `state-${states}`);
    await storage.write(next, bytesBody(bytes), { mode: 'scratch' });
    heartbeat.check();
    await fence();
    await settleWrite(
      storage,
      bytes,
      async () => {
        await storage.rename([{ from: next, to: stateKey }]);
        if (isLast) await storage.sync();
      },
      async () => readRaw(storage),
    );
  }
}

async function isMine(storage: Storage, holder: Holder): Promise<boolean> {
  const text = await readLock(storage);
  return text !== null && holderIn(text)?.instanceId === holder.instanceId;
}

async function readLock(storage: Storage): Promise<string | null> {
  try {
    return (await readAll(storage, lockKey, lockLimitBytes)).toString();
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}

function lockText(holder: Holder, renewals: number): string {
  return `${JSON.stringify({ ...holderToJson(holder), renewals })}\n`;
}

/** Null where the text is no lock of ours (half written, or something else): then only time tells. */
function holderIn(text: string): Holder | null {
  try {
    return parseHolder(JSON.parse(text), 'lock');
  } catch {
    return null;
  }
}
