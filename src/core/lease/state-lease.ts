import type { Pending } from '../catalog/catalog.ts';
import { readState, readVersionedState, type StoredState } from '../catalog/store.ts';
import type { Storage } from '../storage/storage.ts';
import { startHeartbeat, type Heartbeat } from './heartbeat.ts';
import { HeldState } from './held-state.ts';
import { watchLease } from './holder-watch.ts';
import { destinationBusy, type Lease, type LeaseOptions } from './lease.ts';
import { isKnownDead } from './this-holder.ts';

/**
 * Takes the lease on object stores, where it lives in the `pending` of the state itself: an attempt takes it
 * by writing its intent on the condition that the state is still the one that was read. Acquiring therefore
 * only waits until no other attempt is alive; it is the first `writeState` that takes the lease, and its
 * `storage_conflict` (`storage_exists`, if there was no state) means that another attempt was quicker. But a
 * process that was suspended since it read the state has lost the lease, though it never had it: what it is
 * about to publish may be out of date. Throws as `acquireLease` does.
 *
 * If the server honours conditions only for creation, that holds for the first publication alone. All other
 * writes, and every write if the server honours no conditions, go: look, write, wait, read back. No more can
 * be had there: if two publishers write within one pause, both may continue.
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
