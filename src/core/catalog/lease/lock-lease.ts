import { randomUUID } from 'node:crypto';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { bytesBody } from '../../storage/body.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import type { Body, RenamingStorage, Storage, WriteOptions } from '../../storage/storage.ts';
import type { Catalog, Holder } from '../catalog.ts';
import { catalogBody } from '../serialise.ts';
import { isStateOf, measureState, readState, settleWrite, stateKey, type StoredState } from '../store.ts';
import { Heartbeat, watchLease } from './heartbeat.ts';
import { destinationBusy, type Lease, type LeaseOptions, logNotReleased } from './lease.ts';
import { createLock, holderIn, lockKey, ownsLock, readLock, renewLock } from './lock-file.ts';
import { stagingOf, stolenLockKey, straysInStaging } from './staging.ts';
import { isKnownDead, newHolder, retire } from './this-holder.ts';

/** How often other contenders may sweep the unfinished lock before the error is treated as a real one. */
const maxSweeps = 20;
/** How often a new lock may have another owner when it is read. A broken server never ends this. */
const maxLostLocks = 20;

/**
 * Takes the lease on storages that can rename, by creating the file `.publisher.lock` exclusively. Throws the
 * same errors as `acquireLease`.
 *
 * free → held: one contender creates the lock and starts renewing it. It sweeps every other staging directory
 * and then reads the lock again. A former holder that was suspended may have renamed its renewal over the new
 * lock in between, but the sweep removes its staging directory and thus prevents its further steps. A
 * contender is the holder only if it still owns the lock after the sweep.
 *
 * held → free: the holder removes the lock.
 *
 * held → stolen: the holder is known to be dead, or the lock has not changed for `staleAfterMs`. A contender
 * renames the lock aside and then contends for a free lock again.
 *
 * A contender may itself be suspended at any of these steps and continue while another is the holder.
 * Therefore each change directly follows a check that this process was not suspended. Staging directories are
 * listed before the lock is read, and only holders create them. A contender whose lock was stolen therefore
 * never removes the thief's staging directory.
 */
export async function acquireLockLease(storage: RenamingStorage, options: LeaseOptions): Promise<Lease> {
  const heartbeat = new Heartbeat(storage, options);
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
 * Returns once `holder` has the lock and the remains of other attempts are swept. Calls `created` when there
 * is a lock to remove on failure.
 */
async function takeLock(
  storage: RenamingStorage,
  { clock, attemptId, times, signal }: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
  created: () => void,
): Promise<void> {
  const judge = watchLease(times, clock.monotonic());
  let [sweeps, lostLocks] = [0, 0];
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
        lostLocks += 1;
        if (lostLocks === maxLostLocks) throw destinationBusy(storage, null);
        continue;
      }
    } catch (error) {
      sweeps += 1;
      if (!hasCode(error, 'storage_not_found') || sweeps === maxSweeps) throw error;
    }
    const text = await readLock(storage);
    const other = text === null ? null : holderIn(text);
    // A lock that vanished between the two calls counts as renewed, hence the random text. This way, a lock
    // that can never be read also ends the wait.
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

/** Sweeps staging. Returns false if `holder` no longer owns the lock. */
async function swept(
  storage: RenamingStorage,
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
 * Renames the stale lock aside. If the renamed lock is not the stale one, it is restored, unless a third
 * contender has created a new lock. In that case the owner of the renamed lock fails at its next fence.
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
    const taken = await readLock(storage, aside);
    if (taken !== null && taken !== stale) await storage.write(lockKey, bytesBody(taken), { mode: 'create' });
  } catch (error) {
    // Another contender was first. The lock has already been removed or taken again.
    if (!hasCode(error, 'storage_not_found') && !hasCode(error, 'storage_exists')) throw error;
  }
}

/** Rejects a directory or a dangling link at the lock's key, which can never be created or read as a lock. */
async function refuseOtherThanFile(storage: Storage): Promise<void> {
  const found = await storage.stat(lockKey);
  if (found === undefined || found.type === 'file') return;
  throw new WaybillError('storage_permanent', `${storage.label}: "${lockKey}" is not a file`, {
    hint: 'remove it; the name is reserved for the lock of publishers',
  });
}

/*
 * The lock file lease once it is held.
 */

/**
 * Reads the state under a lock that was just acquired and is renewed by `heartbeat`. If the state cannot be
 * read, removes the lock and throws the storage's error.
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
    await giveBack(storage, options, holder, heartbeat);
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
    // An output must not outlive its record.
    await storage.sync();
    await this.fence();
    this.check();
    await settleWrite(
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
    await giveBack(this.#storage, this.#options, this.holder, this.#heartbeat);
  }

  /**
   * Syncs the last write of an attempt even if its response was lost, because no later step would flush it.
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
    await settleWrite(
      storage,
      async () => {
        await storage.rename([{ from: next, to: stateKey }]);
        await sync();
      },
      async () => {
        const isReplaced = await isStateOf(storage, body);
        if (isReplaced) await sync();
        return isReplaced;
      },
    );
  }
}

/**
 * Removes this holder's lock and its attempt's staging directory. A lock that may belong to another holder is
 * left for takeover. Never throws.
 */
async function giveBack(
  storage: RenamingStorage,
  { attemptId, log }: LeaseOptions,
  holder: Holder,
  heartbeat: Heartbeat,
): Promise<void> {
  await heartbeat.stop();
  retire(holder);
  try {
    await storage.removeTree(stagingOf(attemptId));
    if (!(await ownsLock(storage, holder))) return;
    heartbeat.check();
    await storage.remove(lockKey);
  } catch (error) {
    logNotReleased(log, storage, error);
  }
}
