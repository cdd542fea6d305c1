import { WaybillError } from '../../core/lib/errors.ts';
import type { RunStatus } from './run-record.ts';

/* The errors for uploads and runs that are rejected. They are the same for all queues. */

/** @param retryAfterSeconds How long until a slot is likely to be free. */
export function queueFull(queueSize: number, retryAfterSeconds: number): WaybillError {
  return new WaybillError('queue_full', `all ${queueSize} upload slots are in use`, {
    hint: 'try again later',
    retryAfterSeconds,
  });
}

/** @param retryAfterSeconds How long until a slot is likely to be free. */
export function pipelineFull(
  pipelineId: string,
  maxWaiting: number,
  retryAfterSeconds: number,
): WaybillError {
  return new WaybillError(
    'pipeline_full',
    `the pipeline "${pipelineId}" has ${maxWaiting} waiting uploads and runs, the maximum of its max_waiting`,
    { hint: 'try again later', retryAfterSeconds },
  );
}

export function shuttingDown(): WaybillError {
  return new WaybillError('shutting_down', 'the daemon is stopping and accepts no new uploads', {
    hint: 'try again shortly',
  });
}

export function keyInProgress(): WaybillError {
  return new WaybillError(
    'idempotency_in_progress',
    'a request with this Idempotency-Key is still being received',
    { hint: 'try again after its response' },
  );
}

export function keyConflict(): WaybillError {
  return new WaybillError('idempotency_conflict', 'this Idempotency-Key was used with another bundle', {
    hint: 'use a new key for a new bundle',
  });
}

/**
 * Creates the error for a bug in the caller: it called `accept` even though the admission had already ended.
 */
export function admissionEnded(): WaybillError {
  return new WaybillError('internal_error', 'an admission was accepted after it had ended');
}

export function pageGone(): WaybillError {
  return new WaybillError(
    'run_not_found',
    'the run that `before` names is not one of this pipeline, or has expired',
    { hint: 'begin again without `before`' },
  );
}

/** Creates the error of a cancelled run. It is also used as the reason for aborting the run's publication. */
export function cancelled(): WaybillError {
  return new WaybillError('cancelled', 'the run was cancelled', {
    hint: 'upload the bundle again, or start a new run, to publish it',
  });
}

export function runUnknown(): WaybillError {
  return new WaybillError('run_not_found', 'there is no such run', {
    hint: 'records are kept for server.http.retention',
  });
}

export function runFinished(status: RunStatus): WaybillError {
  return new WaybillError('run_finished', `the run has ended: it has ${status}`, {
    hint: 'there is nothing left to cancel',
  });
}

export function nothingToRetry(status: RunStatus): WaybillError {
  return new WaybillError('run_finished', `the run has ended: it has ${status}`, {
    hint: 'run it again with waybill runs rerun, or upload the bundle again',
  });
}

export function runNotFinished(status: RunStatus): WaybillError {
  return new WaybillError('run_not_finished', `the run has not ended: it is ${status}`, {
    hint: 'wait for its end, or cancel it',
  });
}

export function bundleGone(): WaybillError {
  return new WaybillError('bundle_gone', 'the bundle of the run is no longer staged', {
    hint: 'upload it again; server.rerun says how long bundles of failed runs are kept',
  });
}

/* Measures how fast runs finish, so that rejected clients know when to try again. */

/** The maximum number of end times to keep. */
export const maxEndTimes = 64;

const windowMs = 15 * 60_000;
const usualSeconds = 10;
const maxSeconds = 300;

export interface QueueLoad {
  /** The number of uploads and runs that occupy a slot. */
  waiting: number;
  /** The end times of the latest runs, in milliseconds, oldest first. Contains at most `maxEndTimes`. */
  endedAt: readonly number[];
  /** The current time, on the same clock. */
  now: number;
  /** True if the pipeline is paused, in which case no run starts until it is resumed. */
  isPaused: boolean;
}

/**
 * Estimates how long it takes to work off all waiting runs at the current rate, in seconds from 1 to 300.
 * Returns 10 if fewer than two runs have ended in the last 15 minutes. The time since the last end is taken
 * into account, so the estimate grows if the queue is stuck. For a paused pipeline, returns the maximum.
 */
export function estimatedWaitSeconds({ waiting, endedAt, now, isPaused }: QueueLoad): number {
  if (isPaused) return maxSeconds;
  const recent = endedAt.filter((at) => now - at <= windowMs);
  const [oldest] = recent;
  if (oldest === undefined || recent.length < 2) return usualSeconds;
  const msPerRun = (now - oldest) / (recent.length - 1);
  const seconds = Math.ceil((waiting * msPerRun) / 1000);
  return Math.min(Math.max(seconds, 1), maxSeconds);
}

/** Remembers when the latest runs ended, per pipeline and in total. */
export class RunEndTimes {
  readonly #endedAt = new Map<string | null, number[]>();

  /** @param at In milliseconds, on the same clock as `QueueLoad.now`. */
  note(pipelineId: string, at: number): void {
    for (const key of [pipelineId, null]) {
      const endTimes = this.#endedAt.get(key) ?? [];
      this.#endedAt.set(key, endTimes);
      endTimes.push(at);
      if (endTimes.length > maxEndTimes) endTimes.shift();
    }
  }

  /** Returns the end times of one pipeline, or of all pipelines if the id is null. */
  of(pipelineId: string | null): readonly number[] {
    return this.#endedAt.get(pipelineId) ?? [];
  }
}
