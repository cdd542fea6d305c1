import { randomUUID } from 'node:crypto';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { bytesBody } from '../../storage/body.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import type { Body, RenamingStorage, Storage, WriteOptions } from '../../storage/storage.ts';
import type { Catalog, Holder } from '../catalog.ts';
import {
  isStoredState,
  measureState,
  readState,
  stateKey,
  type StoredState,
  verifyWrite,
} from '../catalog-store.ts';
import { catalogBody } from '../serialise.ts';
import { Heartbeat, watchLease } from './heartbeat.ts';
import { destinationBusy, type Lease, type LeaseOptions, logReleaseFailure } from './lease.ts';
import { createLock, lockKey, ownsLock, parseLock, readLock, renewLock } from './lock-file.ts';
import { abandonedCopies, stagingOf, stolenLockKey } from './staged-copies.ts';
import { isKnownDead, markDead, newHolder } from './this-holder.ts';

/**
 * How many times our unfinished lock may disappear during someone else's cleanup before we treat that as a
 * real error.
 */
const maxSweeps = 20;
/** How often a new lock may have another owner when it is read. A broken server never ends this. */
const maxLostLocks = 20;

/**
 * Takes the lease on storage that supports renames, by creating the file `.publisher.lock`. Only one process
 * can succeed. Throws the same errors as `acquireLease`. The lock changes hands as follows:
 *
 * - free → held: A contender creates the lock and starts renewing it. It then deletes every other staging
 *   directory and reads the lock again. A former holder that was suspended may have renewed its own lock over
 *   the new one in between, but without its staging directory, it cannot do anything else. Only a contender
 *   that still owns the lock after the cleanup is the new holder.
 * - held → free: The holder removes the lock.
 * - held → stolen: The holder is known to be dead, or the lock has not changed for `staleAfterMs`. A
 *   contender moves the lock out of the way, and then tries to create its own like everyone else.
 *
 * A contender can be suspended at any of these steps too, and wake up when another one holds the lock. Each
 * change is therefore made right after checking that this process was not suspended. Also, staging
 * directories are listed before the lock is read, and only holders create them. A contender whose lock was
 * stolen can therefore never delete the new holder's staging directory.
 */
export async function acquireLockLease(storage: RenamingStorage, options: LeaseOptions): Promise<Lease> {
  const heartbeat = new Heartbeat(storage, options);
  const holder = newHolder();
  const lock = { isCreated: false };
  try {
    await takeLock(storage, options, holder, heartbeat, () => (lock.isCreated = true));
  } catch (error) {
    if (lock.isCreated) await releaseLock(storage, options, holder, heartbeat);
    await heartbeat.stop();
    markDead(holder);
    throw error;
  }
  return holdLock(storage, options, holder, heartbeat);
}

/**
 * Waits until `holder` has the lock and the files of other attempts are deleted. Calls `created` once there
 * is a lock that the caller must remove if this fails.
 */
async function takeLock(
  storage: RenamingStorage,
  { clock, attemptId, times, signal }: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
  created: () => void,
): Promise<void> {
  const judge = watchLease(times, clock.monotonic());
  let sweeps = 0;
  let lostLocks = 0;
  for (;;) {
    signal?.throwIfAborted();
    heartbeat.check();
    const since = clock.monotonic();
    try {
      if (await createLock(storage, holder)) {
        created();
        heartbeat.renewBy(renewLock(storage, holder, attemptId), since);
        if (await sweepStaging(storage, attemptId, holder, heartbeat)) return;
        heartbeat.renewBy(async () => undefined, clock.monotonic());
        lostLocks += 1;
        if (lostLocks === maxLostLocks) throw destinationBusy(storage, null);
        continue;
      }
    } catch (error) {
      sweeps += 1;
      if (!hasCode(error, 'storage_not_found') || sweeps === maxSweeps) throw error;
    }
    const text = await readLock(storage);
    const other = text === null ? null : parseLock(text);
    // If the lock vanished just now, treat it as renewed by passing random text. The wait then still ends at
    // some point if the lock can never be read.
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

/** Deletes everything that other attempts have in staging. Returns false if `holder` has lost the lock. */
async function sweepStaging(
  storage: RenamingStorage,
  attemptId: string,
  holder: Holder,
  heartbeat: Heartbeat,
): Promise<boolean> {
  const strays = await abandonedCopies(storage, attemptId);
  if (!(await ownsLock(storage, holder))) return false;
  if (strays.length === 0) return true;
  for (const { key, type } of strays) {
    heartbeat.check();
    await (type === 'directory' ? storage.removeTree(key) : storage.remove(key));
  }
  return ownsLock(storage, holder);
}

/**
 * Moves the stale lock out of the way. If it turns out to be a different lock, moves it back, unless a third
 * contender has already created a new one. In that case, the owner of the moved lock fails at its next fence.
 */
async function stealLock(
  storage: RenamingStorage,
  attemptId: string,
  stale: string,
  heartbeat: Heartbeat,
): Promise<void> {
  const aside = stolenLockKey(attemptId);
  heartbeat.check();
  try {
    await storage.rename([{ from: lockKey, to: aside }]);
    const stolenLock = await readLock(storage, aside);
    if (stolenLock !== null && stolenLock !== stale)
      await storage.write(lockKey, bytesBody(stolenLock), { mode: 'create' });
  } catch (error) {
    // Another contender was faster, and the lock is already gone or has a new owner.
    if (!hasCode(error, 'storage_not_found') && !hasCode(error, 'storage_exists')) throw error;
  }
}

/** Refuses a directory or dangling link in place of the lock, because it can neither be created nor read. */
async function refuseOtherThanFile(storage: Storage): Promise<void> {
  const found = await storage.stat(lockKey);
  if (found === undefined || found.type === 'file') return;
  throw new WaybillError('storage_permanent', `${storage.label}: "${lockKey}" is not a file`, {
    hint: 'remove it; the name is reserved for the lock of publishers',
  });
}

/*
 * The lease that `acquireLockLease` returns.
 */

/**
 * Reads the state, now that we have the lock and `heartbeat` renews it. If the state cannot be read, removes
 * the lock and throws the storage's error.
 */
async function holdLock(
  storage: RenamingStorage,
  options: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
): Promise<Lease> {
  try {
    return new HeldLock(storage, options, holder, heartbeat, await readState(storage));
  } catch (error) {
    await releaseLock(storage, options, holder, heartbeat);
    throw error;
  }
}

class HeldLock implements Lease {
  readonly attemptId: string;
  readonly holder: Holder;
  readonly found: StoredState;
  readonly signal: AbortSignal;
  readonly #storage: RenamingStorage;
  readonly #options: LeaseOptions;
  readonly #heartbeat: Heartbeat;
  readonly #staging: Key;
  #states = 0;

  constructor(
    storage: RenamingStorage,
    options: LeaseOptions,
    holder: Holder,
    heartbeat: Heartbeat,
    found: StoredState,
  ) {
    this.attemptId = options.attemptId;
    this.holder = holder;
    this.found = found;
    this.#storage = storage;
    this.#options = options;
    this.#staging = stagingOf(options.attemptId);
    this.#heartbeat = heartbeat;
    this.signal = heartbeat.signal;
  }

  check(): void {
    this.#heartbeat.check();
  }

  async fence(): Promise<void> {
    if (!(await ownsLock(this.#storage, this.holder)))
      throw this.#heartbeat.lose('another publisher holds it');
  }

  async writeState(catalog: Catalog): Promise<void> {
    await this.#replaceState(catalogBody(catalog), { isLast: catalog.pending === null });
  }

  async removeState(): Promise<void> {
    const storage = this.#storage;
    // After a crash, removed outputs could reappear without a record, so sync their removal first.
    await storage.sync();
    await this.fence();
    this.check();
    await verifyWrite(
      storage,
      async () => storage.remove(stateKey),
      async () => (await measureState(storage)) === null,
    );
    await storage.sync();
  }

  async restoreState(): Promise<void> {
    const { raw } = this.found;
    if (raw !== null) return this.#replaceState(raw.body, { isLast: true, digest: raw.digest });
    await this.fence();
    this.check();
    await this.#storage.remove(stateKey);
  }

  async release(): Promise<void> {
    await releaseLock(this.#storage, this.#options, this.holder, this.#heartbeat);
  }

  /**
   * Replaces the state. The attempt's last write must be synced even if its response was lost, because there
   * is no later step that would do it.
   */
  async #replaceState(
    body: Body,
    { isLast, ...expected }: { isLast: boolean } & Pick<WriteOptions, 'digest'>,
  ): Promise<void> {
    const storage = this.#storage;
    this.#states += 1;
    const next = joinKey(this.#staging, `state-${this.#states}`);
    await storage.write(next, body, { mode: 'scratch', ...expected });
    await this.fence();
    this.check();
    const sync = async (): Promise<void> => {
      if (isLast) await storage.sync();
    };
    await verifyWrite(
      storage,
      async () => {
        await storage.rename([{ from: next, to: stateKey }]);
        await sync();
      },
      async () => {
        const isReplaced = await isStoredState(storage, body);
        if (isReplaced) await sync();
        return isReplaced;
      },
    );
  }
}

/**
 * Removes this holder's lock and its attempt's staging directory. If the lock might belong to someone else by
 * now, leaves it for the next contender to take over. Never throws.
 */
async function releaseLock(
  storage: RenamingStorage,
  { attemptId, log }: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
): Promise<void> {
  await heartbeat.stop();
  markDead(holder);
  try {
    await storage.removeTree(stagingOf(attemptId));
    if (!(await ownsLock(storage, holder))) return;
    heartbeat.check();
    await storage.remove(lockKey);
  } catch (error) {
    logReleaseFailure(log, storage, error);
  }
}
