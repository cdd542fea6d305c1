import type { Clock } from './clock.ts';
import { hasCode, WaybillError } from './errors.ts';

export interface RetryPolicy {
  /**
   *  How many times to try again after the first attempt, at least 0. If `forMs` is set, that decides
   * instead, and this is only used for calls after `signal` has aborted.
   */
  retries: number;
  /**
   * How long to keep trying after the first failure, in milliseconds. If this is missing, `retries` is the
   * limit.
   */
  forMs?: number;
  /** The longest that the first pause can be, in milliseconds. This doubles with each attempt. */
  baseMs: number;
  /** The longest that any pause can be, in milliseconds, unless the server asks for more. */
  capMs: number;
}

/** For deliveries, and for the parts of a call that will also be retried as a whole. */
export const briefRetryPolicy: RetryPolicy = { retries: 3, baseMs: 500, capMs: 10_000 };

/** The default. A storage call keeps trying for long enough to get through a server restart. */
export const defaultRetryPolicy: RetryPolicy = { ...briefRetryPolicy, forMs: 60_000 };

/** The pauses between attempts of a run. In each attempt, calls are retried for up to a minute. */
export const runPauses: Pick<RetryPolicy, 'baseMs' | 'capMs'> = { baseMs: 10_000, capMs: 300_000 };

/**
 * The longest that a server can make a call wait, in milliseconds. If the server wants more, the call fails.
 */
export const maxRetryAfterMs = 60_000;

/** The outage of a server, shared by all calls to that server. */
interface Outage {
  /**
   * The time of the first failure since the last response, on the monotonic clock; undefined if the server is
   * fine.
   */
  since?: number | undefined;
}

export interface RetryOptions {
  policy: RetryPolicy;
  /**
   * Shared by all calls to a server. They have `forMs` between them; after that, calls are only retried a few
   * times.
   */
  outage?: Outage;
  clock: Clock;
  /** Returns a number in [0, 1). Only set in tests. */
  random?: () => number;
  signal?: AbortSignal;
  onRetry?: (failure: unknown, attempt: number, pauseMs: number) => void;
}

/**
 * Runs `work`, and tries again as long as it fails with `storage_transient`. Before each new attempt, it
 * waits for a random time from [0, min(cap, base · 2^n)) ("full jitter": M. Brooker, Exponential Backoff and
 * Jitter, AWS Architecture Blog, 2015) or, if the error says so, for `retryAfterSeconds`. Any other error is
 * thrown right away. If the signal aborts during a pause, throws its reason. Calls made after that, such as
 * those to roll back a publication, are retried `retries` times. `work` is passed the number of the attempt,
 * starting at 1.
 */
export async function retry<T>(options: RetryOptions, work: (attempt: number) => Promise<T>): Promise<T> {
  const { policy, clock, signal, outage = {}, random = Math.random } = options;
  const { forMs } = policy;
  const elapsedMs = (): number => (outage.since === undefined ? 0 : clock.monotonic() - outage.since);
  const startsLate = forMs !== undefined && outage.since !== undefined && elapsedMs() >= forMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await work(attempt);
      outage.since = undefined;
      return result;
    } catch (failure) {
      if (!hasCode(failure, 'storage_transient')) {
        outage.since = undefined;
        throw failure;
      }
      outage.since ??= clock.monotonic();
      const isStopping = signal?.aborted === true;
      const isBrief = forMs === undefined || isStopping || startsLate;
      const isOver = isBrief ? attempt > policy.retries : elapsedMs() >= forMs;
      const hintMs = hintOf(failure);
      if (isOver || hintMs > maxRetryAfterMs) throw failure;
      const pauseMs = Math.max(hintMs, fullJitterMs(policy, attempt, random));
      options.onRetry?.(failure, attempt, pauseMs);
      await clock.sleep(pauseMs, isStopping ? undefined : signal);
    }
  }
}

/**
 * Returns how long to wait after attempt number `attempt`, in milliseconds: a random time from [0, min(cap,
 * base · 2^(attempt - 1))).
 */
export function fullJitterMs(
  { baseMs, capMs }: Pick<RetryPolicy, 'baseMs' | 'capMs'>,
  attempt: number,
  random: () => number = Math.random,
): number {
  return Math.floor(random() * Math.min(capMs, baseMs * 2 ** (attempt - 1)));
}

function hintOf(failure: unknown): number {
  return failure instanceof WaybillError ? 1000 * (failure.retryAfterSeconds ?? 0) : 0;
}

/**
 * Parses a Retry-After header, which has either seconds or a date (RFC 9110, 10.2.3). Returns milliseconds.
 */
export function parseRetryAfter(value: string | undefined, now: Date): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now.getTime());
}
