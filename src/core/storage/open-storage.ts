import { briefRetryPolicy, defaultRetryPolicy, type Outage, retry, type RetryPolicy } from '../lib/retry.ts';
import type { OpenOptions, StorageContext } from './backend.ts';
import { backendOf, type StorageLocation } from './backends.ts';
import type { Storage } from './storage.ts';
import { withLog } from './wrappers/with-log.ts';
import { withRate } from './wrappers/with-rate.ts';
import { withRetry } from './wrappers/with-retry.ts';

/** Opens a source or a destination, which the caller has to close. Throws the errors of the backend. */
export type OpenStorage = (location: StorageLocation, options: OpenOptions) => Promise<Storage>;

export interface RetryPolicies {
  /**
   * The retry policy for opening a storage. The default is to give up soon: if a storage is unreachable, a
   * command should fail within seconds.
   */
  opening?: RetryPolicy;
  calls?: RetryPolicy;
}

/**
 * Returns a function that opens configured locations, with retries, logging, and a rate limit. Once `signal`
 * has aborted, calls are only retried briefly. Drivers are loaded when they are first needed, because loading
 * an SDK takes a hundred times as long as loading the rest of the command line.
 */
export function storageOpener(
  context: StorageContext & { signal?: AbortSignal | undefined },
  { opening = briefRetryPolicy, calls = defaultRetryPolicy }: RetryPolicies = {},
): OpenStorage {
  return async (location, options) => {
    const { clock, signal } = context;
    const outage: Outage = {};
    // Opening a silent server takes a minute and is not repeated: a run has its own tries.
    const newOutage: Outage = { since: clock.monotonic() };
    const storage = await retry({ policy: opening, outage: newOutage, clock, signal }, () =>
      backendOf(location).open(location, { ...context, outage }, options),
    );
    const onRetry = (failure: unknown, attempt: number, pauseMs: number): void =>
      context.log.warn(
        { storage: storage.label, attempt, pauseMs, err: failure },
        'storage call failed, trying again',
      );
    const { maxRate = null } = options;
    const limited = maxRate === null ? storage : withRate(storage, clock, maxRate);
    return withRetry(withLog(limited, context.log, clock), {
      policy: calls,
      outage,
      clock,
      signal,
      onRetry,
    });
  };
}
