import { randomUUID } from 'node:crypto';
import type { CoreContext } from '../../context.ts';
import { withReleasers } from '../../lib/lifecycle.ts';
import type { ObjectPlace } from '../../storage/capabilities.ts';
import { type Body, canRename, type Storage } from '../../storage/storage.ts';
import { intercept } from '../../storage/wrappers/delegate.ts';
import type { CatalogState } from '../catalog.ts';
import { defaultLeaseTimes, destinationBusy, isContention, type Lease, type LeaseOptions } from './lease.ts';
import { isAbandoned, lockKey } from './lock-file.ts';
import { acquireLockLease } from './lock-lease.ts';
import { stagingRoot, sweepFinished } from './staging.ts';
import { acquireStateLease } from './state-lease.ts';

/** The part of the context that a lease needs. */
export type LeaseContext = Pick<CoreContext, 'clock' | 'log' | 'signal' | 'leaseTimes'>;

/**
 * Runs `work` under the lease of the bundle path at which `storage` is rooted, and always releases the lease.
 * Throws the errors of `acquireLease` and `work`.
 */
export async function withLease<T>(
  { clock, log, signal, leaseTimes: times = defaultLeaseTimes }: LeaseContext,
  storage: Storage,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  return withReleasers(async (onRelease) => {
    const attemptId = randomUUID();
    const lease = await acquireLease(storage, { clock, log, times, attemptId, signal });
    onRelease(() => lease.release());
    return work(lease);
  });
}

/** Maximum number of decisions if other publishers keep taking the lease first. */
const maxDecisions = 10;

/**
 * Like `withLease`, but runs `work` again on the new state if another attempt took the lease first. `work`
 * must decide and act. Throws `destination_busy` if that happens ten times.
 */
export async function decidingUnderLease<T>(
  context: LeaseContext,
  storage: Storage,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  for (let decision = 1; ; decision += 1) {
    try {
      return await withLease(context, storage, work);
    } catch (error) {
      if (!isContention(error)) throw error;
      if (decision === maxDecisions) throw destinationBusy(storage, null);
      context.log.info({ storage: storage.label, decision }, 'another publisher was first; deciding again');
    }
  }
}

/** For how long after a commit a run with nothing to do looks for copies that the publisher left behind. */
const sweptWithinMs = 24 * 3_600_000;

/**
 * Sweeps the remains of a publisher that was killed between its commit and the release of its lease. Without
 * this, its lock and staging would remain until the next publication. `state` is the state that was found.
 *
 * On file systems, does nothing unless the holder is known to be dead or there is a staging directory without
 * a lock. Acquiring and releasing the lease sweeps both. An object store has no lock, and an attempt's
 * staging holds copies of replaced files. Once its intent is removed from the state, the attempt is over and
 * the copies are unused. Finding them requires a listing, so this happens only within a day of a commit, and
 * not after the first publication, which replaces nothing. The next publication always looks for them.
 */
export async function sweepAbandoned(
  context: LeaseContext,
  storage: Storage,
  state: CatalogState,
): Promise<void> {
  if (storage.rename !== undefined) {
    if (await isLeftBehind(storage)) await withLease(context, storage, async () => undefined);
    return;
  }
  if (state.kind !== 'valid' || state.catalog.generation < 2) return;
  const sinceCommitMs = context.clock.now().getTime() - Date.parse(state.catalog.updatedAt);
  if (sinceCommitMs < sweptWithinMs) await sweepFinished(storage);
}

/**
 * Returns true if there is staging without a lock. A holder always has both, so such staging is abandoned.
 */
async function isLeftBehind(storage: Storage): Promise<boolean> {
  if ((await storage.stat(lockKey)) !== undefined) return isAbandoned(storage);
  return (await storage.stat(stagingRoot)) !== undefined;
}

/**
 * Acquires the lease of the bundle path at which `storage` is rooted, and waits for another holder according
 * to `times`. Throws `destination_busy` if a live holder keeps it, the signal's reason if it aborts first, or
 * the storage's error.
 */
export async function acquireLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  return canRename(storage) ? acquireLockLease(storage, options) : acquireStateLease(storage, options);
}

/**
 * Wraps a storage for the holder of a lease. Every call that changes something first throws `lease_lost` if
 * this process was suspended past its lease. Nothing is awaited between the check and the change.
 *
 * If outputs are written in place, the lease is also checked after each chunk of a body, because reading a
 * body may take a long time and the driver sends it only when it is complete. Other storages write outputs to
 * staging, which the next holder sweeps.
 */
export function whileHeld(storage: Storage, lease: Pick<Lease, 'check'>): Storage {
  const bodyOf = (body: Body): Body => (canRename(storage) ? body : checked(body, lease));
  return intercept(
    storage,
    {
      async call(name, _args, run) {
        if (changes.has(name)) lease.check();
        return run();
      },
    },
    {
      async write(key, body, options) {
        lease.check();
        return storage.write(key, bodyOf(body), options);
      },
    },
  );
}

const changes = new Set(['rename', 'keep', 'putBack', 'duplicate', 'replaceLink', 'remove', 'removeTree']);

function checked(body: Body, lease: Pick<Lease, 'check'>): Body {
  const { origin } = body;
  const checkedOrigin =
    origin === undefined
      ? undefined
      : (): ObjectPlace => {
          lease.check();
          return origin();
        };
  return {
    size: body.size,
    origin: checkedOrigin,
    async *open() {
      for await (const chunk of body.open()) {
        lease.check();
        yield chunk;
      }
      lease.check();
    },
  };
}
