import type { Clock } from './clock.ts';
import { hasCode } from './errors.ts';

export interface RetryPolicy {
  /** Attempts after the first; 0 or more. */
  retries: number;
  /** Upper bound of the first pause, in milliseconds; it doubles with each try. */
  baseMs: number;
  /** No pause is longer than this, in milliseconds. */
  capMs: number;
}

export const defaultRetryPolicy: RetryPolicy = { retries: 3, baseMs: 500, capMs: 10_000 };

export interface RetryOptions {
  policy: RetryPolicy;
  clock: Clock;
  /** A number in [0, 1); only tests pass their own. */
  random?: () => number;
  signal?: AbortSignal;
  onRetry?: (failure: unknown, attempt: number, pauseMs: number) => void;
}

/**
 * Runs `work` again while it fails with `storage_transient`, after a pause drawn uniformly from [0, min(cap,
 * base · 2^n)) ("full jitter": M. Brooker, Exponential Backoff and Jitter, AWS Architecture Blog, 2015). Any
 * other failure is final and thrown. If `signal` aborts, the last failure or, during a pause, the signal's
 * reason is thrown. `work` gets the number of the attempt, from 1.
 */
export async function retry<T>(options: RetryOptions, work: (attempt: number) => Promise<T>): Promise<T> {
  const { policy, clock, signal, random = Math.random } = options;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work(attempt);
    } catch (failure) {
      if (!hasCode(failure, 'storage_transient') || attempt > policy.retries || signal?.aborted)
        throw failure;
      const pauseMs = Math.floor(random() * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)));
      options.onRetry?.(failure, attempt, pauseMs);
      await clock.sleep(pauseMs, signal);
    }
  }
}
