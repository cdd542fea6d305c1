import type { Catalog, Holder } from '../catalog.ts';
import { catalogBody } from '../serialise-catalog.ts';
import { measureState, readState, stateKey, type StoredState } from '../store.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import type { Body, Storage, WriteOptions } from '../../storage/storage.ts';
import type { Heartbeat } from './heartbeat.ts';
import { logNotReleased, type Lease, type LeaseOptions } from './lease.ts';
import { lockKey, ownsLock } from './lock-file.ts';
import { isStateOf, settleWrite } from './settle-write.ts';
import { stagingOf } from './staging.ts';
import { retire } from './this-holder.ts';

/*
 * The lease as a lock file, once it is held.
 */

/**
 * Reads the state under a lock that was just taken and that `heartbeat` renews. If the state cannot be read,
 * removes the lock and throws the storage's error.
 */
export async function holdLock(
  storage: Storage,
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
  readonly #storage: Storage;
  readonly #options: LeaseOptions;
  readonly #heartbeat: Heartbeat;
  readonly #staging: Key;
  #states = 0;

  constructor(
    storage: Storage,
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
    await this.fence();
    this.check();
    await settleWrite(
      storage,
      async () => storage.remove(stateKey),
      async () => (await measureState(storage)) === null,
    );
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
   * Syncs the last write of an attempt, even if the response to it was lost: no later step would flush it.
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
 * Removes the lock of this holder and the staging of its attempt. A lock that may belong to another holder is
 * left for takeover. Never throws.
 */
export async function giveBack(
  storage: Storage,
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
