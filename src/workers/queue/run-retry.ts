import type { Config } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { fullJitterMs, type RetryPolicy, runPauses } from '../../core/lib/retry.ts';
import type { PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';
import { failedRun } from './run-transitions.ts';

/*
 * Determines the next state of a run whose attempt failed. It is the same for every queue.
 *
 *   running ──► queued, with `next_try_at`     the cause is temporary, and `retry_for` has not passed
 *   running ──► failed                         otherwise
 *   queued  ──► failed, `superseded`           a newer run of the same place was accepted
 */

/** How a pipeline's failed runs are retried. */
export interface RetrySettings {
  /** How long runs are retried after the first failure, in milliseconds. 0 disables retries. */
  forMs: number;
  /** Whether later runs pass a run that is waiting for its next try, or wait behind it. */
  whileRetrying: 'pass' | 'wait';
  /** True if all uploads of the pipeline have the same path, because all its destinations are `fixed`. */
  hasOnePlace: boolean;
  /** Set only by tests. */
  pauses?: RetryPauses;
}

type RetryPauses = Pick<RetryPolicy, 'baseMs' | 'capMs'> & { random?: () => number };

/** Maximum pause between two attempts, in milliseconds. */
export const maxPauseMs = runPauses.capMs;

export type RetriesOf = (pipelineId: string) => RetrySettings;

export const noRetries: RetriesOf = () => ({ forMs: 0, whileRetrying: 'pass', hasOnePlace: false });

/** Returns the current settings of each pipeline. */
export function retriesOf(settings: Current<Config>): RetriesOf {
  return (pipelineId) => {
    const { pipelines, server } = settings.get();
    const pipeline = pipelines.find(({ id }) => id === pipelineId);
    if (pipeline === undefined) return noRetries(pipelineId);
    const { destinations, retryForMs, whileRetrying } = pipeline;
    const fixed = destinations.filter(({ mapping }) => mapping === 'fixed').length;
    const hasOnePlace = fixed === destinations.length;
    // Uploads to different bundle paths share only the fixed destinations, where their order matters.
    const isMixed = fixed > 0 && !hasOnePlace;
    const forMs = retryForMs ?? server.retryForMs;
    return { forMs, whileRetrying: isMixed ? 'wait' : whileRetrying, hasOnePlace };
  };
}

/**
 * Returns the record of a run whose last attempt `failed`, either unchanged or queued for its next try.
 *
 * One destination with a temporary failure is enough for a retry. Destinations are independent, and published
 * ones stay published.
 */
export function afterFailure(
  failed: RunRecord,
  now: Date,
  { forMs, pauses = runPauses }: RetrySettings,
): RunRecord {
  const cause = passingCause(failed);
  if (cause === null || forMs === 0) return failed;
  // The clock may have been ahead when the run first failed.
  const latestMs = now.getTime() + forMs;
  const untilMs = Math.min(Date.parse(failed.retry_until ?? '') || latestMs, latestMs);
  if (now.getTime() >= untilMs) return failed;
  const pauseMs = fullJitterMs(pauses, failed.attempt, pauses.random);
  const nextTryAt = Math.min(now.getTime() + pauseMs, untilMs);
  return {
    ...failed,
    status: 'queued',
    rerunnable: false,
    attempt: failed.attempt + 1,
    next_try_at: new Date(nextTryAt).toISOString(),
    retry_until: new Date(untilMs).toISOString(),
    last_error: cause,
    started_at: null,
    finished_at: null,
    summary: null,
    error: null,
  };
}

/** Returns a failed run's first temporary error, or null if all errors are permanent. */
function passingCause({ error, destinations }: RunRecord): ErrorRecord | null {
  const errors = [error, ...destinations.map((destination) => destination.error)];
  return errors.find((one) => one?.retryable === true) ?? null;
}

/** Reports whether the run is waiting for its next try. */
export function isRetrying({ status, next_try_at }: RunRecord): boolean {
  return status === 'queued' && next_try_at !== null;
}

/** Returns log fields about the next try. */
export function nextTryOf({ attempt, next_try_at, retry_until, last_error }: RunRecord): object {
  return { attempt, next_try_at, retry_until, code: last_error?.code };
}

/** Returns the milliseconds until a waiting run's next try. */
export function pauseOf({ next_try_at }: RunRecord, now: Date): number {
  const leftMs = Date.parse(next_try_at ?? '') - now.getTime();
  // The system clock may have been set back.
  return Math.min(Math.max(leftMs, 0), maxPauseMs);
}

/** Returns the record of a run whose next try starts once a worker is free. */
export function dueRun(record: RunRecord, now: Date): RunRecord {
  return isRetrying(record) ? { ...record, next_try_at: now.toISOString() } : record;
}

/** Returns the record after the newer run `by`, which publishes to the same place, was accepted. */
export function supersededRun(record: RunRecord, by: string, now: Date): RunRecord {
  const error = new WaybillError('superseded', `the newer run ${by} replaced this run`, {
    hint: 'see the newer run; run this one again only if its bundle is to be published again',
  });
  return failedRun(record, errorRecord(error), now);
}

/**
 * Reports whether two runs of one pipeline publish to the same paths, so that the later run replaces the
 * earlier one.
 */
export function hasSamePlace(a: PublishJob, b: PublishJob, { hasOnePlace }: RetrySettings): boolean {
  if (a.channel !== b.channel) return false;
  if (a.staged === null || b.staged === null) return a.staged === b.staged;
  return hasOnePlace || a.bundlePath === b.bundlePath;
}
