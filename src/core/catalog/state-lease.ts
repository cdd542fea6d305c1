import { hasCode } from '../errors.ts';
import { bytesBody } from '../storage/body.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, Pending } from './catalog.ts';
import { parseState, serialiseCatalog } from './codec.ts';
import { startHeartbeat } from './heartbeat.ts';
import { isKnownDead, newHolder, retire } from './holder.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { readRaw, readState, stateKey, type StoredState } from './store.ts';
import { watchLease } from './watch.ts';
import { settleWrite } from './write-result.ts';

/** Where a server honours no conditions: how long to wait before reading back who won. */
const settlePauseMs = 2_000;

/**
 * The lease on object stores: it lives in `pending` of the state itself, and is taken by writing the intent on condition that the state is
 * still the one that was read. Acquiring therefore only waits until no other attempt is alive in there; the first
 * `writeState` is what takes the lease, and its `storage_conflict` says that someone else was quicker.
 */
export async function acquireStateLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const { clock, times, signal } = options;
  const judge = watchLease(times, clock.monotonic());
  for (;;) {
    signal?.throwIfAborted();
    const found = await readState(storage);
    const pending = pendingOf(found);
    const isHeld = pending?.holder != null && !isKnownDead(pending.holder);
    const verdict = isHeld ? judge(`${pending.attemptId} ${pending.renewals}`, clock.monotonic()) : 'stale';
    if (verdict === 'stale') return holdState(storage, options, found);
    if (verdict === 'busy') throw destinationBusy(storage, pending?.holder ?? null);
    await clock.sleep(times.pollEveryMs, signal);
  }
}

function pendingOf({ state }: StoredState): Pending | null {
  return state.kind === 'valid' ? state.catalog.pending : null;
}

function holdState(storage: Storage, options: LeaseOptions, found: StoredState): Lease {
  const { attemptId, clock, log } = options;
  const holder = newHolder();
  let version = found.version;
  let isThere = found.raw !== null;
  let written: Catalog | null = null;
  let turn: Promise<unknown> = Promise.resolve();

  const heartbeat = startHeartbeat(storage, options, async () => {
    await inTurn(async () => {
      if (written?.pending?.attemptId !== attemptId) return;
      await put({ ...written, pending: { ...written.pending, renewals: written.pending.renewals + 1 } });
    });
  });

  return {
    attemptId,
    holder,
    signal: heartbeat.signal,
    check: () => heartbeat.check(),
    found,

    async fence(): Promise<void> {
      const present = await readState(storage);
      if (pendingOf(present)?.attemptId !== attemptId) throw heartbeat.lose('another publisher took it over');
    },

    async writeState(catalog: Catalog): Promise<void> {
      heartbeat.check();
      await inTurn(async () => put(catalog));
    },

    async restoreState(): Promise<void> {
      heartbeat.check();
      await inTurn(async () => {
        if (found.raw !== null) await putBytes(found.raw);
        // No store has a conditional delete that can be relied on; that we own the state was just confirmed by the fence.
        else if (isThere) await storage.remove(stateKey);
        written = null;
      });
    },

    async release(): Promise<void> {
      await heartbeat.stop();
      retire(holder);
      await inTurn(async () => {
        // An attempt that failed half-way leaves its intent; without a holder in it, the next attempt need not wait for it to grow stale.
        if (written?.pending?.attemptId === attemptId)
          await put({ ...written, pending: { ...written.pending, holder: null } });
      }).catch((error: unknown) => {
        log.warn(
          { storage: storage.label, err: error },
          'the lease was not given back; the next attempt takes it over',
        );
      });
    },
  };

  /** One write of the state at a time: a renewal and a commit must not race each other. */
  async function inTurn(work: () => Promise<void>): Promise<void> {
    const mine = turn.catch(() => undefined).then(work);
    turn = mine;
    await mine;
  }

  async function put(catalog: Catalog): Promise<void> {
    await putBytes(serialiseCatalog(catalog));
    written = catalog;
  }

  async function putBytes(bytes: Buffer): Promise<void> {
    const body = bytesBody(bytes);
    const headers = { contentType: 'application/json', cacheControl: 'no-cache' };
    const { conditionalWrites } = storage.facts;
    await settleWrite(
      storage,
      bytes,
      async () => {
        if (!isThere && conditionalWrites !== 'none')
          version = (await storage.write(stateKey, body, { mode: 'create', headers })).version;
        else if (conditionalWrites === 'full' && version !== null)
          version = (await storage.write(stateKey, body, { mode: 'replace', ifVersion: version, headers }))
            .version;
        else await putAndReadBack(bytes);
      },
      async () => {
        const present = await readRaw(storage);
        if (present?.equals(bytes) === true) version = (await storage.stat(stateKey))?.version ?? null;
        return present;
      },
    );
    isThere = true;
  }

  /** The best that can be done where a server ignores conditions: write, wait until others in flight have landed, see whose write stayed. */
  async function putAndReadBack(bytes: Buffer): Promise<void> {
    const before = await readRaw(storage);
    if (before !== null && isAnothers(before)) throw heartbeat.lose('another publisher took it over');
    await storage.write(stateKey, bytesBody(bytes), {
      mode: 'replace',
      headers: { contentType: 'application/json' },
    });
    await clock.sleep(settlePauseMs, options.signal);
    const after = await readRaw(storage);
    if (after?.equals(bytes) !== true)
      throw heartbeat.lose('another publisher wrote the state at the same time');
    log.debug({ storage: storage.label }, 'the state was written without conditions and read back');
  }

  function isAnothers(raw: Buffer): boolean {
    if (written === null) return found.raw?.equals(raw) !== true;
    const state = parseState(raw);
    return state.kind !== 'valid' || state.catalog.pending?.attemptId !== attemptId;
  }
}

/** True for the failures that mean "someone else was quicker", after which the caller looks and decides again. */
export function isContention(error: unknown): boolean {
  return hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists');
}
