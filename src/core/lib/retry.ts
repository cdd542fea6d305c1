import type { Clock } from './clock.ts';
import { hasCode, WaybillError } from './errors.ts';

export interface RetryPolicy {
  /** Attempts after the first; 0 or more. If `forMs` is set, only of calls after `signal` has aborted. */
  retries: number;
  /** Retries until this many milliseconds after the first failure. Absent: `retries` limits the attempts. */
  forMs?: number;
  /** Upper bound of the first pause, in milliseconds; it doubles with each try. */
  baseMs: number;
  /** No pause is longer than this, in milliseconds, unless the server asks for it. */
  capMs: number;
}

/** The policy for parts of a call that is retried as a whole, and for deliveries. */
export const briefRetryPolicy: RetryPolicy = { retries: 3, baseMs: 500, capMs: 10_000 };

/** A call to a storage outlasts the restart of a server. */
export const defaultRetryPolicy: RetryPolicy = { ...briefRetryPolicy, forMs: 60_000 };

/** Pauses between the tries of a run, each of which retries its calls for a minute. */
export const runPauses: Pick<RetryPolicy, 'baseMs' | 'capMs'> = { baseMs: 10_000, capMs: 300_000 };

/** Longest pause in milliseconds that a call accepts from a server. It does not retry after a longer one. */
export const maxRetryAfterMs = 60_000;

/** An outage of one server, as all calls to it see it together. */
interface Outage {
  /** Monotonic time of the first failure since the last answer; undefined while the server answers. */
  since?: number | undefined;
}

export interface RetryOptions {
  policy: RetryPolicy;
  /** Shared by the calls to one server: together they wait `forMs`, and later calls are retried briefly. */
  outage?: Outage;
  clock: Clock;
  /** Returns a number in [0, 1). Replaced in tests only. */
  random?: () => number;
  signal?: AbortSignal;
  onRetry?: (failure: unknown, attempt: number, pauseMs: number) => void;
}

/**
 * Runs `work` again while it fails with `storage_transient`. The pause is drawn uniformly from [0, min(cap,
 * base · 2^n)) ("full jitter": M. Brooker, Exponential Backoff and Jitter, AWS Architecture Blog, 2015), or
 * is the failure's `retryAfterSeconds`. Throws any other failure immediately. Throws the reason of `signal`
 * if that aborts during a pause. Later calls, such as those that undo a publication, are retried `retries`
 * times. `work` gets the number of the attempt, from 1.
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
 * The pause after the failed attempt number `attempt`, in milliseconds: drawn uniformly from [0, min(cap,
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

/** Milliseconds of a Retry-After header, in seconds or as a date (RFC 9110, 10.2.3). */
export function parseRetryAfter(value: string | undefined, now: Date): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now.getTime());
}
