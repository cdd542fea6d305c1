import type { Clock } from './clock.ts';
import { hasCode, WaybillError } from './errors.ts';

export interface RetryPolicy {
  /**
   * How many times to try again after the first attempt, at least 0. If `forMs` is set, that decides
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

/** Calls that are retried briefly stop once an outage has lasted this long, in milliseconds. */
const maxBriefOutageMs = 60_000;
/** An attempt that takes this long, in milliseconds, failed because the server was silent. */
const slowAttemptMs = 10_000;

/** An outage of one server, shared by all calls to it, and by the retries within a call. */
export interface Outage {
  /** Monotonic time of the first failure since the last response, or undefined while the server responds. */
  since?: number | undefined;
  /** The latest failure of a slow attempt, and its monotonic time. */
  silence?: { failure: unknown; at: number };
}

export interface RetryOptions {
  policy: RetryPolicy;
  /** Shared by all calls to a server. Together they wait for `forMs`, and later calls are brief (`retry`). */
  outage?: Outage;
  clock: Clock;
  /** Returns a number in [0, 1). Only set in tests. */
  random?: () => number;
  signal?: AbortSignal;
  onRetry?: (failure: unknown, attempt: number, pauseMs: number) => void;
}

/**
 * Runs `work` again while it fails with `storage_transient`. The pause is drawn uniformly from [0, min(cap,
 * base · 2^n)) ("full jitter": M. Brooker, Exponential Backoff and Jitter, AWS Architecture Blog, 2015), or
 * is the failure's `retryAfterSeconds`. Throws any other failure immediately, and the signal's reason if it
 * aborts during a pause. `work` receives the attempt number, counted from 1.
 *
 * Brief calls are retried `retries` times: those without `forMs`, those made after the signal aborted, such
 * as calls that undo a publication, and those made when the outage has already lasted for `forMs`. In a long
 * outage, a slow attempt is not repeated, and calls that follow it fail immediately with its error.
 * Otherwise each call that cleans up would wait for a silent server several times.
 */
export async function retry<T>(options: RetryOptions, work: (attempt: number) => Promise<T>): Promise<T> {
  const { policy, clock, signal, outage = {}, random = Math.random } = options;
  const { forMs } = policy;
  const isLong = (): boolean =>
    outage.since !== undefined && clock.monotonic() - outage.since >= (forMs ?? maxBriefOutageMs);
  const startsLate = isLong();
  if (startsLate) throwIfSilent(outage, clock);
  for (let attempt = 1; ; attempt += 1) {
    const startedAt = clock.monotonic();
    try {
      const result = await work(attempt);
      outage.since = undefined;
      return result;
    } catch (failure) {
      if (!hasCode(failure, 'storage_transient')) {
        outage.since = undefined;
        throw failure;
      }
      const now = clock.monotonic();
      outage.since ??= now;
      const isSlow = now - startedAt >= slowAttemptMs;
      if (isSlow) outage.silence = { failure, at: now };
      const isStopping = signal?.aborted === true;
      const isBrief = forMs === undefined || isStopping || startsLate;
      const isOver = isBrief ? attempt > policy.retries || (isSlow && isLong()) : isLong();
      const hintMs = hintOf(failure);
      if (isOver || hintMs > maxRetryAfterMs) throw failure;
      const pauseMs = Math.max(hintMs, fullJitterMs(policy, attempt, random));
      options.onRetry?.(failure, attempt, pauseMs);
      await clock.sleep(pauseMs, isStopping ? undefined : signal);
    }
  }
}

function throwIfSilent({ silence }: Outage, clock: Clock): void {
  if (silence !== undefined && clock.monotonic() - silence.at < slowAttemptMs) throw silence.failure;
}

/** The part of a failed try that counts, in milliseconds. A try that meets a silent server lasts as long. */
const maxCountedTryMs = 180_000;
/** How long the last try may go on after the time for tries has passed, in milliseconds. */
const lastTryGraceMs = 45_000;

/** A try of a run that failed for a temporary reason. All times are in milliseconds, on one clock. */
interface FailedTry {
  /** Its number, counted from 1. */
  attempt: number;
  startedAt: number;
  failedAt: number;
  /** When the time for tries ends. Undefined after the first try, which decides it. */
  until: number | undefined;
}

/**
 * Returns when a run is tried again, and when the time for tries ends. Returns null if the run has failed.
 *
 * The time for tries counts from the start of the first try, or from three minutes or a tenth of `forMs`
 * before its end if that is later. If each try lasts as long as the one before, the last one ends less than a
 * minute after that time.
 */
export function nextTry(
  { attempt, startedAt, failedAt, until }: FailedTry,
  forMs: number,
  { random, ...pauses }: Pick<RetryPolicy, 'baseMs' | 'capMs'> & { random?: (() => number) | undefined },
): { at: number; until: number } | null {
  const countedMs = Math.min(Math.max(failedAt - startedAt, 0), maxCountedTryMs, forMs / 10);
  // The clock may have been fast at the time of the first failure.
  const end = Math.min(until ?? failedAt + forMs - countedMs, failedAt + forMs);
  const lastStart = end - Math.max(countedMs - lastTryGraceMs, 0);
  if (failedAt >= lastStart) return null;
  return { at: Math.min(failedAt + fullJitterMs(pauses, attempt, random), lastStart), until: end };
}

/**
 * Returns how long to wait after attempt number `attempt`, in milliseconds: a random time from [0, min(cap,
 * base · 2^(attempt - 1))).
 */
function fullJitterMs(
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
