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
import { stagingRoot, sweepFinished } from './staged-copies.ts';
import { acquireStateLease } from './state-lease.ts';

/** The parts of the context needed to take a lease. */
export type LeaseContext = Pick<CoreContext, 'clock' | 'log' | 'signal' | 'leaseTimes'>;

/**
 * Runs `work` while holding the lease of the bundle path that `storage` is rooted at. Always releases the
 * lease afterwards. Throws any error from `acquireLease` or `work`.
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

/** How many times to decide again if other publishers keep taking the lease first. */
const maxDecisions = 10;

/**
 * Like `withLease`, except that `work` runs again, with the new state, if another attempt took the lease
 * first. `work` has to both decide and act. Throws `destination_busy` if that happens ten times.
 */
export async function decideUnderLease<T>(
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

/** How long after a commit a run with nothing to do still looks for copies that the publisher left behind. */
const sweptWithinMs = 24 * 3_600_000;

/**
 * Cleans up after a publisher that was killed after its commit and before it released its lease. Its lock and
 * staging files would otherwise stay there until the next publication. `state` is the current state.
 *
 * On a file system, this does nothing unless the lock's holder is known to be dead or there are staging files
 * without a lock. Taking and releasing the lease then deletes both. An object store has no lock, but an
 * attempt keeps copies of replaced files in staging. Once its intent is gone from the state, the attempt is
 * over and the copies are no longer needed. It takes a listing to find them, so this looks for them only
 * within a day of a commit, and not after the first publication, which does not replace anything. The next
 * publication always looks.
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
 * Reports whether there are staging files without a lock. A holder always has a lock, so no one needs them.
 */
async function isLeftBehind(storage: Storage): Promise<boolean> {
  if ((await storage.stat(lockKey)) !== undefined) return isAbandoned(storage);
  return (await storage.stat(stagingRoot)) !== undefined;
}

/**
 * Takes the lease of the bundle path that `storage` is rooted at. If another process has it, waits according
 * to `times`. Throws `destination_busy` if that process is alive and keeps it, the signal's reason if it
 * aborts first, or the storage's error.
 */
export async function acquireLease(storage: Storage, options: LeaseOptions): Promise<Lease> {
  return canRename(storage) ? acquireLockLease(storage, options) : acquireStateLease(storage, options);
}

/**
 * Wraps the storage so that every call that changes something first checks the lease. If this process was
 * suspended for so long that it lost the lease, the call throws `lease_lost`. Nothing is awaited between the
 * check and the change.
 *
 * If outputs are written in place, the lease is checked again after each chunk, since reading a body can take
 * a while and the driver does not send it until it is complete. Otherwise, outputs are written to staging,
 * which the next holder deletes anyway.
 */
export function guardWithLease(storage: Storage, lease: Pick<Lease, 'check'>): Storage {
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

const changes: ReadonlySet<string> = new Set<keyof Storage>([
  'rename',
  'backUp',
  'restore',
  'duplicate',
  'replaceLink',
  'remove',
  'removeTree',
]);

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
