import type { Config } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { nextTry, type RetryPolicy, runPauses } from '../../core/lib/retry.ts';
import type { PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';
import { failedRun } from './run-transitions.ts';

/*
 * Decides what happens to a run after a failed attempt. All queues use the same rules:
 *
 *   running ──► queued, with `next_try_at`     if the cause is temporary and `retry_for` is not over
 *   running ──► failed                         otherwise
 *   queued  ──► failed, `superseded`           if a newer run is accepted that publishes to the same place
 */

export interface RetrySettings {
  /** For how long after its first failure a run is retried, in milliseconds. 0 turns retries off. */
  forMs: number;
  /** Whether later runs may overtake a run that is waiting for its next attempt, or have to wait for it. */
  whileRetrying: 'pass' | 'wait';
  /**
   * True if all uploads of the pipeline end up at the same path, because all of its destinations are `fixed`.
   */
  hasSingleTarget: boolean;
  /** Only used in tests. */
  pauses?: RetryPauses;
}

type RetryPauses = Pick<RetryPolicy, 'baseMs' | 'capMs'> & { random?: () => number };

/** The longest pause between two attempts, in milliseconds. */
export const maxPauseMs = runPauses.capMs;

export type RetrySettingsOf = (pipelineId: string) => RetrySettings;

export const noRetries: RetrySettingsOf = () => ({ forMs: 0, whileRetrying: 'pass', hasSingleTarget: false });

/** Looks up a pipeline's current retry settings. */
export function retrySettingsOf(settings: Current<Config>): RetrySettingsOf {
  return (pipelineId) => {
    const { pipelines, server } = settings.get();
    const pipeline = pipelines.find(({ id }) => id === pipelineId);
    if (pipeline === undefined) return noRetries(pipelineId);
    const { destinations, retryForMs, whileRetrying } = pipeline;
    const fixed = destinations.filter(({ mapping }) => mapping === 'fixed').length;
    const hasSingleTarget = fixed === destinations.length;
    // Uploads to different bundle paths only have the fixed destinations in common. There, the order matters.
    const isMixed = fixed > 0 && !hasSingleTarget;
    const forMs = retryForMs ?? server.retryForMs;
    return { forMs, whileRetrying: isMixed ? 'wait' : whileRetrying, hasSingleTarget };
  };
}

/**
 * Decides what happens after an attempt that has `failed`. Returns either the same record, or one that is
 * queued for the next attempt.
 *
 * For a retry, it is enough if a single destination failed for a temporary reason. Destinations are
 * independent of each other, and those that were published stay published.
 */
export function retryOrFail(
  failed: RunRecord,
  now: Date,
  { forMs, pauses = runPauses }: RetrySettings,
): RunRecord {
  const cause = temporaryCause(failed);
  if (cause === null || forMs === 0) return failed;
  const failedAt = now.getTime();
  const next = nextTry(
    {
      attempt: failed.attempt,
      startedAt: Date.parse(failed.started_at ?? '') || failedAt,
      failedAt,
      until: Date.parse(failed.retry_until ?? '') || undefined,
    },
    forMs,
    pauses,
  );
  if (next === null) return failed;
  return {
    ...failed,
    status: 'queued',
    rerunnable: false,
    attempt: failed.attempt + 1,
    next_try_at: new Date(next.at).toISOString(),
    retry_until: new Date(next.until).toISOString(),
    last_error: cause,
    started_at: null,
    finished_at: null,
    summary: null,
    error: null,
  };
}

/** Returns the first error that is only temporary, or null if all of them are permanent. */
function temporaryCause({ error, destinations }: RunRecord): ErrorRecord | null {
  const errors = [error, ...destinations.map((destination) => destination.error)];
  return errors.find((one) => one?.retryable === true) ?? null;
}

/** Reports whether the run is waiting for its next attempt. */
export function isRetrying({ status, next_try_at }: RunRecord): boolean {
  return status === 'queued' && next_try_at !== null;
}

export function retryLogFields({ attempt, next_try_at, retry_until, last_error }: RunRecord): object {
  return { attempt, next_try_at, retry_until, code: last_error?.code };
}

/** Returns how long a run has to wait for its next attempt, in milliseconds. */
export function retryDelayMs({ next_try_at }: RunRecord, now: Date): number {
  const leftMs = Date.parse(next_try_at ?? '') - now.getTime();
  // The result would be too high if the system clock was set back.
  return Math.min(Math.max(leftMs, 0), maxPauseMs);
}

/** Makes the next attempt due, so that it starts as soon as a worker is free. */
export function makeRetryDue(record: RunRecord, now: Date): RunRecord {
  return isRetrying(record) ? { ...record, next_try_at: now.toISOString() } : record;
}

/** Ends a run because a newer run, `by`, that publishes to the same place was accepted. */
export function supersededRun(record: RunRecord, by: string, now: Date): RunRecord {
  const error = new WaybillError('superseded', `the newer run ${by} replaced this run`, {
    hint: 'see the newer run; run this one again only if its bundle is to be published again',
  });
  return failedRun(record, errorRecord(error), now);
}

/**
 * Reports whether two runs of a pipeline publish to the same paths. If they do, the later one makes the
 * earlier one obsolete.
 */
export function hasSameTarget(a: PublishJob, b: PublishJob, { hasSingleTarget }: RetrySettings): boolean {
  if (a.channel !== b.channel) return false;
  if (a.staged === null || b.staged === null) return a.staged === b.staged;
  return hasSingleTarget || a.bundlePath === b.bundlePath;
}
