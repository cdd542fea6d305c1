import type { Pending } from '../catalog.ts';
import { readState, readVersionedState, type StoredState } from '../store.ts';
import type { Storage } from '../../storage/storage.ts';
import { startHeartbeat, type Heartbeat } from './heartbeat.ts';
import { HeldState } from './held-state.ts';
import { watchLease } from './holder-watch.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { isKnownDead } from './this-holder.ts';

/**
 * Takes the lease on object stores, where it is the `pending` field of the state. An attempt takes it by
 * writing its intent on the condition that the state has not changed since it was read. This function only
 * waits until no other attempt is alive. The first `writeState` takes the lease. Its `storage_conflict`, or
 * `storage_exists` if there was no state, means that another attempt was first. A process that was suspended
 * after reading the state gets `lease_lost`, because its plan may be out of date. Throws like `acquireLease`.
 *
 * On a server that supports conditions only for creation, this protects only the first publication. All other
 * writes, and every write on a server without conditions, read the state, write, wait and read back. This is
 * weaker: if two publishers write within one pause, both may continue.
 */
export async function acquireStateLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  const heartbeat = startHeartbeat(storage, options);
  try {
    return await whenFree(storage, options, heartbeat);
  } catch (error) {
    await heartbeat.stop();
    throw error;
  }
}

async function whenFree(storage: Storage, options: LeaseOptions, heartbeat: Heartbeat): Promise<Lease> {
  const { clock, times, signal } = options;
  const honoured = await storage.facts.conditionalWrites();
  const judge = watchLease(times, clock.monotonic());
  for (;;) {
    signal?.throwIfAborted();
    heartbeat.check();
    const found =
      honoured === 'full'
        ? await readVersionedState(storage)
        : { ...(await readState(storage)), version: null };
    const pending = pendingOf(found);
    const isHeld = pending?.holder != null && !isKnownDead(pending.holder);
    const verdict = isHeld ? judge(`${pending.attemptId} ${pending.renewals}`, clock.monotonic()) : 'stale';
    if (verdict === 'stale') return new HeldState(storage, options, heartbeat, found, honoured);
    if (verdict === 'busy') throw destinationBusy(storage, pending?.holder ?? null);
    await clock.sleep(times.pollEveryMs, signal);
  }
}

function pendingOf({ state }: StoredState): Pending | null {
  return state.kind === 'valid' ? state.catalog.pending : null;
}
