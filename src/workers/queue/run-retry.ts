import type { Config } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { fullJitterMs, type RetryPolicy, runPauses } from '../../core/lib/retry.ts';
import type { PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';
import { failedRun } from './run-transitions.ts';

/*
 * What becomes of a run whose try has failed. Pure, and the same for every queue.
 *
 *   running ──► queued, with `next_try_at`     the cause is passing, and `retry_for` is not over
 *   running ──► failed                         otherwise
 *   queued  ──► failed, `superseded`           a newer run of the same place was accepted meanwhile
 */

/** How failed runs of one pipeline are tried again. */
export interface RetrySettings {
  /** How long, from the first failure on, in milliseconds; 0: never. */
  forMs: number;
  /** Whether later runs pass a run that waits for its next try, or wait behind it. */
  whileRetrying: 'pass' | 'wait';
  /** Whether all uploads of the pipeline land at the same path: its destinations are all `fixed`. */
  hasOnePlace: boolean;
  /** Only tests pass their own. */
  pauses?: RetryPauses;
}

type RetryPauses = Pick<RetryPolicy, 'baseMs' | 'capMs'> & { random?: () => number };

/** No pause between two tries is longer, in milliseconds. */
export const maxPauseMs = runPauses.capMs;

export type RetriesOf = (pipelineId: string) => RetrySettings;

export const noRetries: RetriesOf = () => ({ forMs: 0, whileRetrying: 'pass', hasOnePlace: false });

/** The settings of each pipeline, as configured now. */
export function retriesOf(settings: Current<Config>): RetriesOf {
  return (pipelineId) => {
    const { pipelines, server } = settings.get();
    const pipeline = pipelines.find(({ id }) => id === pipelineId);
    if (pipeline === undefined) return noRetries(pipelineId);
    const { destinations, retryForMs, whileRetrying } = pipeline;
    const fixed = destinations.filter(({ mapping }) => mapping === 'fixed').length;
    const hasOnePlace = fixed === destinations.length;
    // Uploads to different bundle paths meet at a fixed destination only: their order counts there.
    const isMixed = fixed > 0 && !hasOnePlace;
    const forMs = retryForMs ?? server.retryForMs;
    return { forMs, whileRetrying: isMixed ? 'wait' : whileRetrying, hasOnePlace };
  };
}

/**
 * The record of a run whose last try has ended as `failed`: the same, or queued for its next try.
 *
 * One destination with a passing cause is enough for a next try: destinations are independent, and those that
 * are published stay so.
 */
export function afterFailure(
  failed: RunRecord,
  now: Date,
  { forMs, pauses = runPauses }: RetrySettings,
): RunRecord {
  const cause = passingCause(failed);
  if (cause === null || forMs === 0) return failed;
  const until = failed.retry_until ?? new Date(now.getTime() + forMs).toISOString();
  const untilMs = Date.parse(until);
  if (now.getTime() >= untilMs) return failed;
  const pauseMs = fullJitterMs(pauses, failed.attempt, pauses.random);
  const nextTryAt = Math.min(now.getTime() + pauseMs, untilMs);
  return {
    ...failed,
    status: 'queued',
    rerunnable: false,
    attempt: failed.attempt + 1,
    next_try_at: new Date(nextTryAt).toISOString(),
    retry_until: until,
    last_error: cause,
    started_at: null,
    finished_at: null,
    summary: null,
    error: null,
  };
}

/** The first error of a failed run that a later try may not meet; null if all of them are permanent. */
function passingCause({ error, destinations }: RunRecord): ErrorRecord | null {
  const errors = [error, ...destinations.map((destination) => destination.error)];
  return errors.find((one) => one?.retryable === true) ?? null;
}

/** Whether the run waits for its next try. */
export function isRetrying({ status, next_try_at }: RunRecord): boolean {
  return status === 'queued' && next_try_at !== null;
}

/** What the log says of it. */
export function nextTryOf({ attempt, next_try_at, retry_until, last_error }: RunRecord): object {
  return { attempt, next_try_at, retry_until, code: last_error?.code };
}

/** How long until the next try of a run that waits for it, in milliseconds. */
export function pauseOf({ next_try_at }: RunRecord, now: Date): number {
  const leftMs = Date.parse(next_try_at ?? '') - now.getTime();
  // The clock of the machine may have been set back.
  return Math.min(Math.max(leftMs, 0), maxPauseMs);
}

/** The run is tried as soon as a worker is free. */
export function dueRun(record: RunRecord, now: Date): RunRecord {
  return isRetrying(record) ? { ...record, next_try_at: now.toISOString() } : record;
}

/** The newer run `by` of the same place was accepted. */
export function supersededRun(record: RunRecord, by: string, now: Date): RunRecord {
  const error = new WaybillError('superseded', `the newer run ${by} replaced this run`, {
    hint: 'see the newer run; run this one again only if its bundle is to be published again',
  });
  return failedRun(record, errorRecord(error), now);
}

/**
 * Whether two runs of one pipeline publish to the same paths, so that the later one makes the earlier one
 * superfluous.
 */
export function hasSamePlace(a: PublishJob, b: PublishJob, { hasOnePlace }: RetrySettings): boolean {
  if (a.channel !== b.channel) return false;
  if (a.staged === null || b.staged === null) return a.staged === b.staged;
  return hasOnePlace || a.bundlePath === b.bundlePath;
}
