import type { LeaseTimes } from '../../context.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Catalog, Holder, Pending } from '../catalog.ts';
import type { StoredState } from '../store.ts';

/**
 * The exclusive right of one attempt to change one destination bundle path.
 *
 * Between `acquireLease` and `release`, at most one attempt holds it. A process can be suspended for an hour
 * and then continue, unaware that it lost its lease. Every step of an attempt is therefore fenced. On file
 * systems, each rename starts in the attempt's own staging directory, which the next holder sweeps before
 * anything else. On object stores, each write of the state is conditional on the version that the attempt
 * last wrote.
 */
export interface Lease {
  readonly attemptId: string;
  readonly holder: Holder;
  /** Aborts with `lease_lost` when the lease could not be renewed in time. */
  readonly signal: AbortSignal;
  /** The state as read under the lease. */
  readonly found: StoredState;
  /**
   * Throws `lease_lost` if the last renewal was too long ago. Makes no requests. Call it before every change.
   */
  check(): void;
  /** Reads the storage and throws `lease_lost` if another attempt took over. */
  fence(): Promise<void>;
  /**
   * Replaces the state. Throws `lease_lost` if the lease is lost, `storage_conflict` or `storage_exists` if
   * another attempt changed the state first, and `commit_unknown` if the outcome cannot be determined.
   */
  writeState(catalog: Catalog): Promise<void>;
  /**
   * Removes the state, for an attempt that leaves nothing published. Throws the same errors as `writeState`.
   */
  removeState(): Promise<void>;
  /**
   * Restores the bytes found, or removes the state if there was none. Throws the same errors as `writeState`.
   */
  restoreState(): Promise<void>;
  /**
   * Releases the lease and removes the attempt's staging. Never throws, because the next attempt sweeps
   * anything that could not be removed.
   */
  release(): Promise<void>;
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
  /** A random id, unique to this attempt. It is the name of the staging directory. */
  attemptId: string;
  times: LeaseTimes;
  /** Ends the wait for another holder. */
  signal?: AbortSignal;
}

/** Returns the intent of the attempt that holds this lease. */
export function intentOf(
  { attemptId, holder }: Pick<Lease, 'attemptId' | 'holder'>,
  announced: Pick<Pending, 'owner' | 'action' | 'startedAt' | 'outputs' | 'removes'>,
): Pending {
  return { attemptId, holder, renewals: 0, ...announced };
}

export function leaseLost(storage: Pick<Storage, 'label'>, why: string): WaybillError {
  return new WaybillError('lease_lost', `${storage.label}: the lease was lost: ${why}`, {
    hint: 'run again; nothing of this attempt was committed',
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

/**
 * Returns true if the error means that another attempt took the lease first. The caller should then decide
 * again.
 */
export function isContention(error: unknown): boolean {
  return hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists');
}

export function logNotReleased(log: Log, storage: Pick<Storage, 'label'>, error: unknown): void {
  log.warn({ storage: storage.label, err: error }, 'lease release failed; the next attempt takes it over');
}
