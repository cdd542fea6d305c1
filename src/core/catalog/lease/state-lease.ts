import { hasCode } from '../../lib/errors.ts';
import type { Body, ConditionalWrites, Storage, WriteOptions, Written } from '../../storage/storage.ts';
import { versionConflict } from '../../storage/storage-errors.ts';
import type { Catalog, Holder, Pending } from '../catalog.ts';
import {
  isSameBytes,
  isStoredState,
  measureState,
  readState,
  readVersionedState,
  type StateBytes,
  stateKey,
  type StoredState,
  verifyWrite,
} from '../catalog-store.ts';
import { catalogBody } from '../serialise.ts';
import { Heartbeat, watchLease } from './heartbeat.ts';
import { destinationBusy, type Lease, type LeaseOptions, logReleaseFailure } from './lease.ts';
import { isKnownDead, markDead, newHolder } from './this-holder.ts';

/**
 * Takes the lease on an object store, where the lease is the `pending` field of the state. An attempt takes
 * it by writing its intent, on the condition that the state has not changed since it was read. This function
 * itself only waits until no other attempt is running; the first `writeState` takes the lease. If another
 * attempt was faster, it fails with `storage_conflict` or, if there was no state, `storage_exists`. If the
 * process was suspended after reading the state, it fails with `lease_lost`, since the plan may be out of
 * date. Throws the same errors as `acquireLease`.
 *
 * Some servers check conditions only when an object is created. There, only the first publication is
 * protected. For all other writes, and on servers without any conditions, the attempt reads the state,
 * writes, waits and reads it back. This is weaker: if two publishers write within the same pause, both may
 * think they won.
 */
export async function acquireStateLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const heartbeat = new Heartbeat(storage, options);
  try {
    return await waitForLease(storage, options, heartbeat);
  } catch (error) {
    await heartbeat.stop();
    throw error;
  }
}

async function waitForLease(storage: Storage, options: LeaseOptions, heartbeat: Heartbeat): Promise<Lease> {
  const { clock, times, signal } = options;
  const honored = await storage.facts.conditionalWrites();
  const judge = watchLease(times, clock.monotonic());
  for (;;) {
    signal?.throwIfAborted();
    heartbeat.check();
    const found =
      honored === 'full'
        ? await readVersionedState(storage)
        : { ...(await readState(storage)), version: null };
    const pending = pendingOf(found);
    const isHeld = pending?.holder != null && !isKnownDead(pending.holder);
    const verdict = isHeld ? judge(`${pending.attemptId} ${pending.renewals}`, clock.monotonic()) : 'stale';
    if (verdict === 'stale') return new HeldState(storage, options, heartbeat, found, honored);
    if (verdict === 'busy') throw destinationBusy(storage, pending?.holder ?? null);
    await clock.sleep(times.pollEveryMs, signal);
  }
}

function pendingOf({ state }: StoredState): Pending | null {
  return state.kind === 'valid' ? state.catalog.pending : null;
}

/**
 * How long to wait before reading back the state to see whose write won, on a server without conditional
 * writes. If a concurrent write takes longer than this, it goes unnoticed.
 */
const settlePauseMs = 2_000;

const headers = { contentType: 'application/json', cacheControl: 'no-cache' };

/**
 * A lease that is stored in the state (see `acquireStateLease`). It is not taken until the first
 * `writeState`.
 */
class HeldState implements Lease {
  readonly attemptId: string;
  readonly holder: Holder = newHolder();
  readonly found: StoredState;
  readonly signal: AbortSignal;
  readonly #storage: Storage;
  readonly #options: LeaseOptions;
  readonly #honored: ConditionalWrites;
  readonly #heartbeat: Heartbeat;
  /**
   * The version that this attempt last read or wrote; null if there is no state, or if the server does not
   * support versions.
   */
  #version: string | null;
  #exists: boolean;
  /**
   * The catalog that this attempt last wrote; null before it takes the lease, and after it has restored the
   * original state.
   */
  #written: Catalog | null = null;
  /** The size and digest of `#written`; null if unknown. */
  #bytes: StateBytes | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    storage: Storage,
    options: LeaseOptions,
    heartbeat: Heartbeat,
    found: StoredState & { version: string | null },
    honored: ConditionalWrites,
  ) {
    this.attemptId = options.attemptId;
    this.found = found;
    this.#storage = storage;
    this.#options = options;
    this.#honored = honored;
    this.#version = found.version;
    this.#exists = found.raw !== null;
    this.#heartbeat = heartbeat;
    heartbeat.renewBy(async () => this.#renew(), options.clock.monotonic());
    this.signal = heartbeat.signal;
  }

  check(): void {
    this.#heartbeat.check();
  }

  async fence(): Promise<void> {
    if (!(await this.#isHeld())) throw this.#lose();
  }

  async writeState(catalog: Catalog): Promise<void> {
    await this.#queueWrite(async () => this.#put(catalog));
  }

  async removeState(): Promise<void> {
    await this.#queueWrite(async () => {
      await this.fence();
      await verifyWrite(
        this.#storage,
        async () => this.#remove(),
        async () => (await measureState(this.#storage)) === null,
      );
      this.#exists = false;
      this.#written = null;
    });
  }

  async restoreState(): Promise<void> {
    await this.#queueWrite(async () => {
      if (this.found.raw !== null)
        await this.#putBody(this.found.raw.body, { digest: this.found.raw.digest });
      else if (this.#exists) {
        await this.#remove();
        this.#exists = false;
      }
      this.#written = null;
    });
  }

  async release(): Promise<void> {
    await this.#heartbeat.stop();
    markDead(this.holder);
    // When an attempt fails, its intent stays in the state. Remove the holder from it, so that the next
    // attempt can start right away and does not have to wait until the lease is stale.
    await this.#amendIntent(() => ({ holder: null })).catch((error: unknown) =>
      logReleaseFailure(this.#options.log, this.#storage, error),
    );
  }

  async #renew(): Promise<void> {
    await this.#amendIntent(({ renewals }) => ({ renewals: renewals + 1 }));
  }

  /**
   * Changes the intent. Does nothing if the intent has not been written yet or has already been committed.
   */
  async #amendIntent(change: (intent: Pending) => Partial<Pending>): Promise<void> {
    await this.#queueWrite(async () => {
      const catalog = this.#written;
      if (catalog?.pending?.attemptId !== this.attemptId) return;
      await this.#put({ ...catalog, pending: { ...catalog.pending, ...change(catalog.pending) } });
    });
  }

  /** Runs writes of the state one after the other, so that a renewal never races with a commit. */
  async #queueWrite(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.catch(() => undefined).then(work);
    this.#turn = turn;
    await turn;
  }

  async #put(catalog: Catalog): Promise<void> {
    await this.#putBody(catalogBody(catalog));
    this.#written = catalog;
  }

  async #putBody(body: Body, expected: Pick<WriteOptions, 'digest'> = {}): Promise<void> {
    const storage = this.#storage;
    await verifyWrite(
      storage,
      async () => {
        const { size, digest, version } = await this.#replace(body, expected);
        this.#version = version;
        this.#bytes = { size, digest };
      },
      async () => {
        if (!(await isStoredState(storage, body))) return false;
        this.#bytes = null;
        if (this.#honored === 'full') this.#version = (await storage.stat(stateKey))?.version ?? null;
        return true;
      },
    );
    this.#exists = true;
  }

  /**
   * Removes the state. Most servers do not support conditional deletes and silently ignore the condition, so
   * the caller must call `fence` first.
   */
  async #remove(): Promise<void> {
    this.check();
    const ifVersion = this.#honored === 'full' ? this.#version : null;
    try {
      await this.#storage.remove(stateKey, { ifVersion: ifVersion ?? undefined });
    } catch (error) {
      throw hasCode(error, 'storage_conflict') ? this.#lose() : error;
    }
  }

  /** Writes the state under the strictest condition that the server supports. */
  async #replace(body: Body, expected: Pick<WriteOptions, 'digest'>): Promise<Written> {
    const storage = this.#storage;
    // The caller checked earlier, but it may have been waiting in `#inTurn` for a while since then.
    this.check();
    const how = { headers, ...expected };
    if (!this.#exists && this.#honored !== 'none')
      return storage.write(stateKey, body, { mode: 'create', ...how });
    if (this.#honored === 'full' && this.#version !== null)
      return storage.write(stateKey, body, { mode: 'replace', ifVersion: this.#version, ...how });
    return { ...(await this.#replaceUnconditionally(body, how)), version: this.#version };
  }

  /**
   * Reads the state to make sure that it is still ours, then writes. If this takes the lease, it also waits
   * for any concurrent write to arrive and reads back which one won.
   */
  async #replaceUnconditionally(body: Body, how: Omit<WriteOptions, 'mode'>): Promise<StateBytes> {
    const storage = this.#storage;
    const { clock, signal } = this.#options;
    const takesLease = this.#written === null;
    if (!(await this.#isUnchanged())) throw this.#overtaken();
    this.check();
    const written = await storage.write(stateKey, body, { mode: 'replace', ...how });
    if (!takesLease) return written;
    await clock.sleep(settlePauseMs, signal);
    this.check();
    if (!isSameBytes(await measureState(storage), written)) throw this.#overtaken();
    return written;
  }

  /**
   * Reports whether the state is still the same as when it was first read or, once the lease is taken,
   * whether it still has this attempt's intent.
   */
  async #isUnchanged(): Promise<boolean> {
    if (this.#written === null) return isSameBytes(await measureState(this.#storage), this.found.raw);
    return this.#isHeld();
  }

  /**
   * Reports whether the state has this attempt's intent. If the bytes are the ones last written, there is no
   * need to parse them.
   */
  async #isHeld(): Promise<boolean> {
    const isWritten = this.#written?.pending?.attemptId === this.attemptId;
    if (isWritten && this.#bytes !== null && isSameBytes(await measureState(this.#storage), this.#bytes))
      return true;
    const { state } = await readState(this.#storage);
    return state.kind === 'valid' && state.catalog.pending?.attemptId === this.attemptId;
  }

  /**
   * Returns the error to throw if another attempt was faster. If this attempt did not have the lease yet, it
   * can try again. Otherwise, its lease is lost.
   */
  #overtaken(): Error {
    return this.#written === null ? versionConflict(this.#storage, stateKey) : this.#lose();
  }

  #lose(): Error {
    return this.#heartbeat.lose('another publisher took it over');
  }
}
