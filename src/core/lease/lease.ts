import type { Catalog, Holder, Pending } from '../catalog/catalog.ts';
import type { StoredState } from '../catalog/store.ts';
import type { Clock } from '../clock.ts';
import { hasCode, WaybillError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Storage } from '../storage/storage.ts';

/**
 * The exclusive right of one attempt to change one destination bundle path.
 *
 * Between `acquireLease` and `release` at most one attempt in the world holds it. But a process can be
 * suspended for an hour and then continue, unaware that it lost its lease. So every step of an attempt is
 * fenced: on file systems each rename starts in the attempt's own staging directory, which the next holder
 * sweeps before anything else; on object stores each write of the state is conditional on the version that
 * the attempt wrote last.
 */
export interface Lease {
  readonly attemptId: string;
  readonly holder: Holder;
  /** Aborts with `lease_lost` when the lease could not be renewed in time. */
  readonly signal: AbortSignal;
  /** The state as it was read under the lease. */
  readonly found: StoredState;
  /**
   * Makes no request, so call it before every mutation: throws `lease_lost` if the last renewal was too long
   * ago.
   */
  check(): void;
  /** Asks the storage: throws `lease_lost` if another attempt has taken over. */
  fence(): Promise<void>;
  /**
   * Replaces the state. Throws `lease_lost` if the lease is gone, `storage_conflict` or `storage_exists` if
   * another attempt changed the state first, `commit_unknown` if it cannot be known whether the state was
   * replaced.
   */
  writeState(catalog: Catalog): Promise<void>;
  /** Removes the state: how an attempt that leaves nothing published ends. Throws as `writeState` does. */
  removeState(): Promise<void>;
  /** Puts the state back as it was found: the same bytes, or no state. Throws as `writeState` does. */
  restoreState(): Promise<void>;
  /**
   * Gives the lease up and removes the attempt's staging. Never throws: the next attempt sweeps whatever
   * could not be removed.
   */
  release(): Promise<void>;
}

/** All in milliseconds, on the monotonic clock of the process that counts them. */
export interface LeaseTimes {
  /** The holder renews this often. */
  renewEveryMs: number;
  /** After this long without a renewal the holder gives up by itself. Less than `staleAfterMs`. */
  abortAfterMs: number;
  /** A contender takes over a lease that it has seen unchanged for this long; no clocks need to agree. */
  staleAfterMs: number;
  /** A contender waits this long for a holder that shows life; for one that shows none, until it is stale. */
  waitMs: number;
  pollEveryMs: number;
}

export const defaultLeaseTimes: LeaseTimes = {
  renewEveryMs: 30_000,
  abortAfterMs: 90_000,
  staleAfterMs: 120_000,
  waitMs: 60_000,
  pollEveryMs: 500,
};

export interface LeaseOptions {
  clock: Clock;
  log: Log;
  /** A random id, unique to this attempt; names its staging directory. */
  attemptId: string;
  times: LeaseTimes;
  /** Ends the wait for another holder. */
  signal?: AbortSignal;
}

/** The intent of the attempt that holds this lease. Pure. */
export function intentOf(
  { attemptId, holder }: Pick<Lease, 'attemptId' | 'holder'>,
  announced: Pick<Pending, 'owner' | 'action' | 'startedAt' | 'outputs' | 'removes'>,
): Pending {
  return { attemptId, holder, renewals: 0, ...announced };
}

export function leaseLost(storage: Pick<Storage, 'label'>, why: string): WaybillError {
  return new WaybillError('lease_lost', `${storage.label}: the lease was lost: ${why}`, {
    hint: 'another publisher took over; run again, nothing of this attempt was committed',
  });
}

export function destinationBusy(storage: Pick<Storage, 'label'>, holder: Holder | null): WaybillError {
  const who = holder === null ? 'another publisher' : `process ${holder.pid} on ${holder.host}`;
  return new WaybillError(
    'destination_busy',
    `${storage.label}: ${who} is publishing to it and did not finish in time`,
    { hint: 'wait for it, then run again' },
  );
}

/** Whether another attempt was quicker to take the lease; then the caller observes and decides again. */
export function isContention(error: unknown): boolean {
  return hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists');
}

export function logNotReleased(log: Log, storage: Pick<Storage, 'label'>, error: unknown): void {
  log.warn(
    { storage: storage.label, err: error },
    'the lease could not be released; the next attempt takes it over',
  );
}
