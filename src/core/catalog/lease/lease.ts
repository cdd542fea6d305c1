import type { LeaseTimes } from '../../context.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Catalog, Holder, Pending } from '../catalog.ts';
import type { StoredState } from '../catalog-store.ts';

/**
 * The exclusive right of an attempt to change a destination bundle path.
 *
 * Between `acquireLease` and `release`, no other attempt has the lease. But a process can be suspended for an
 * hour and then carry on without noticing that its lease is gone. For that reason, each step of an attempt is
 * fenced. On a file system, every rename starts in the attempt's own staging directory, and the first thing
 * the next holder does is delete that directory. On an object store, the state is only written if its version
 * is still the one that this attempt wrote last.
 */
export interface Lease {
  readonly attemptId: string;
  readonly holder: Holder;
  /** Aborts with a `lease_lost` error if the lease could not be renewed in time. */
  readonly signal: AbortSignal;
  /** The state at the time when the lease was taken. */
  readonly found: StoredState;
  /**
   * Throws `lease_lost` if the last renewal was too long ago. Makes no requests, so call it before every
   * change.
   */
  check(): void;
  /** Reads the storage and throws a `lease_lost` error if another attempt has taken over. */
  fence(): Promise<void>;
  /**
   * Replaces the state. Throws `lease_lost` if the lease is lost, `storage_conflict` or `storage_exists` if
   * another attempt has changed the state, and `commit_unknown` if it may or may not have worked.
   */
  writeState(catalog: Catalog): Promise<void>;
  /** Removes the state when nothing is left published. Throws the same errors as `writeState`. */
  removeState(): Promise<void>;
  /**
   * Writes back the original bytes or, if there was no state, removes it. Throws the same errors as
   * `writeState`.
   */
  restoreState(): Promise<void>;
  /**
   * Gives up the lease and deletes the attempt's staging directory. Never throws, because the next attempt
   * deletes anything that is left.
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
  /** A random id for this attempt, which is also the name of its staging directory. */
  attemptId: string;
  times: LeaseTimes;
  /** Cancels waiting for another holder. */
  signal?: AbortSignal;
}

export function createIntent(
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

/** Reports whether the error means that another attempt took the lease first. If so, decide again. */
export function isContention(error: unknown): boolean {
  return hasCode(error, 'storage_conflict') || hasCode(error, 'storage_exists');
}

export function logReleaseFailure(log: Log, storage: Pick<Storage, 'label'>, error: unknown): void {
  log.warn({ storage: storage.label, err: error }, 'lease release failed; the next attempt takes it over');
}
