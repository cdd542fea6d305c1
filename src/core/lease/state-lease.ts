import { hasCode } from '../errors.ts';
import { bytesBody } from '../storage/body.ts';
import { versionConflict } from '../storage/errors.ts';
import { sourceBackends } from '../storage/backends.ts';
import type { ConditionalWrites, ObjectHeaders, Storage } from '../storage/storage.ts';
import type { Catalog, Pending } from '../catalog/catalog.ts';
import { parseState, serialiseCatalog } from '../catalog/codec.ts';
import { startHeartbeat } from './heartbeat.ts';
import { isKnownDead, newHolder, retire } from './this-holder.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { readRaw, readState, readVersionedState, stateKey, type StoredState } from '../catalog/store.ts';
import { watchLease } from './holder-watch.ts';
import { settleWrite } from './settle-write.ts';

/**
 * Where a server honours no conditions: how long to wait before reading back who took the lease. A write that
 * is longer under way than this is not seen.
 */
const settlePauseMs = 2_000;

/**
 * The lease on object stores: it lives in `pending` of the state itself, and is taken by writing the intent
 * on condition that the state is still the one that was read. Acquiring therefore only waits until no other
 * attempt is alive in there; the first `writeState` is what takes the lease, and its `storage_conflict` says
 * that someone else was quicker.
 *
 * Where the server honours conditions only for creation, that holds for the first publication; later ones,
 * and all of them where it honours none, look, write, wait and read back. That is as much as can be had
 * there: two publishers that write within one pause may both go on.
 */
export async function acquireStateLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const { clock, times, signal } = options;
  const honoured = await storage.facts.conditionalWrites();
  const judge = watchLease(times, clock.monotonic());
  for (;;) {
    signal?.throwIfAborted();
    const found =
      honoured === 'full'
        ? await readVersionedState(storage)
        : { ...(await readState(storage)), version: null };
    const pending = pendingOf(found);
    const isHeld = pending?.holder != null && !isKnownDead(pending.holder);
    const verdict = isHeld ? judge(`${pending.attemptId} ${pending.renewals}`, clock.monotonic()) : 'stale';
    if (verdict === 'stale') return holdState(storage, options, found, honoured);
    if (verdict === 'busy') throw destinationBusy(storage, pending?.holder ?? null);
    await clock.sleep(times.pollEveryMs, signal);
  }
}

function pendingOf({ state }: StoredState): Pending | null {
  return state.kind === 'valid' ? state.catalog.pending : null;
}

function holdState(
  storage: Storage,
  options: LeaseOptions,
  found: StoredState & { version: string | null },
  honoured: ConditionalWrites,
): Lease {
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
        // No store has a conditional delete that can be relied on; that we own the state was just confirmed
        // by the fence.
        else if (isThere) {
          await storage.remove(stateKey);
          isThere = false;
        }
        written = null;
      });
    },

    async release(): Promise<void> {
      await heartbeat.stop();
      retire(holder);
      await inTurn(async () => {
        // An attempt that failed half-way leaves its intent; without a holder in it, the next attempt need
        // not wait for it to grow stale.
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
    await settleWrite(
      storage,
      bytes,
      async () => {
        if (!isThere && honoured !== 'none')
          version = (await storage.write(stateKey, body, { mode: 'create', headers })).version;
        else if (honoured === 'full' && version !== null)
          version = (await storage.write(stateKey, body, { mode: 'replace', ifVersion: version, headers }))
            .version;
        else await putUnconditionally(bytes, headers);
      },
      async () => {
        const present = await readRaw(storage);
        if (present?.equals(bytes) === true && honoured === 'full')
          version = (await storage.stat(stateKey))?.version ?? null;
        return present;
      },
    );
    isThere = true;
  }

  /**
   * Looks whose the state is, and writes it. Who takes the lease so also waits until other writes under way
   * have landed, and looks whose stayed.
   */
  async function putUnconditionally(bytes: Buffer, headers: ObjectHeaders): Promise<void> {
    const takes = written === null;
    if (isAnothers(await readRaw(storage))) throw overtaken();
    heartbeat.check();
    await storage.write(stateKey, bytesBody(bytes), { mode: 'replace', headers });
    if (!takes) return;
    await clock.sleep(settlePauseMs, options.signal);
    heartbeat.check();
    if ((await readRaw(storage))?.equals(bytes) !== true) throw overtaken();
  }

  function isAnothers(raw: Buffer | null): boolean {
    if (written === null) return raw === null ? found.raw !== null : found.raw?.equals(raw) !== true;
    const state = raw === null ? null : parseState(raw, sourceBackends);
    return state?.kind !== 'valid' || state.catalog.pending?.attemptId !== attemptId;
  }

  /** Who has not taken the lease yet looks again; who had it has lost it. */
  function overtaken(): Error {
    return written === null
      ? versionConflict(storage, stateKey)
      : heartbeat.lose('another publisher took it over');
  }
}

/**
 * True for the failures that mean "someone else was quicker", after which the caller looks and decides again.
 */
export function isContention(error: unknown): boolean {
  return hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists');
}
