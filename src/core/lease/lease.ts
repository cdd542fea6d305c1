import type { Clock } from '../clock.ts';
import { WaybillError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, Holder } from '../catalog/catalog.ts';
import type { StoredState } from '../catalog/store.ts';

/**
 * The right of one attempt to change one destination bundle path. From `acquire` to `release` at most one
 * attempt in the world has it, but a process can be stopped for an hour and then go on, not knowing that it
 * lost its lease. So each thing that an attempt does is fenced by what it holds: on file systems every rename
 * starts in the attempt's own staging directory, which whoever takes the lease over sweeps away first; on
 * object stores every write of the state is conditional on the version that the attempt wrote last.
 */
export interface Lease {
  readonly attemptId: string;
  readonly holder: Holder;
  /** Aborts with `lease_lost` when the lease could not be renewed for too long. */
  readonly signal: AbortSignal;
  /** The state as it was read under the lease. */
  readonly found: StoredState;
  /**
   * Cheap, to be called before every mutation: throws `lease_lost` where too much time has passed since the
   * last renewal.
   */
  check(): void;
  /** Asks the storage: throws `lease_lost` where another attempt has taken over. */
  fence(): Promise<void>;
  /**
   * Replaces the state. Throws `storage_conflict` where someone else changed it, `commit_unknown` where no
   * one can tell whether it was replaced.
   */
  writeState(catalog: Catalog): Promise<void>;
  /** Puts the state back as it was found: the bytes, or nothing. */
  restoreState(): Promise<void>;
  /**
   * Gives the lease back and removes the attempt's staging. Never throws: what it cannot remove the next
   * attempt sweeps.
   */
  release(): Promise<void>;
}

export interface LeaseTimes {
  /** The holder renews this often. */
  renewEveryMs: number;
  /** Without a renewal for this long the holder gives up by itself. */
  abortAfterMs: number;
  /**
   * A contender takes over what it has seen unchanged for this long on its own monotonic clock: no clocks
   * need to agree.
   */
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
  attemptId: string;
  times: LeaseTimes;
  signal?: AbortSignal;
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
    {
      hint: 'wait for it, then run again',
    },
  );
}
