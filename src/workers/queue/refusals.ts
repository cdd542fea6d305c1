import { WaybillError } from '../../core/lib/errors.ts';
import type { RunStatus } from './run-record.ts';

/*
 * The errors for refused uploads and runs, the same for every queue.
 */

/** @param retryAfterSeconds Time until a slot may become free. */
export function queueFull(queueSize: number, retryAfterSeconds: number): WaybillError {
  return new WaybillError('queue_full', `all ${queueSize} upload slots are taken`, {
    hint: 'try again later',
    retryAfterSeconds,
  });
}

/** @param retryAfterSeconds Time until a slot may become free. */
export function pipelineFull(
  pipelineId: string,
  maxWaiting: number,
  retryAfterSeconds: number,
): WaybillError {
  return new WaybillError(
    'pipeline_full',
    `the pipeline "${pipelineId}" has ${maxWaiting} uploads and runs that wait, all that its max_waiting allows`,
    { hint: 'try again later', retryAfterSeconds },
  );
}

export function shuttingDown(): WaybillError {
  return new WaybillError('shutting_down', 'the daemon is stopping and takes no new uploads', {
    hint: 'try again shortly',
  });
}

export function keyInProgress(): WaybillError {
  return new WaybillError(
    'idempotency_in_progress',
    'a request with this Idempotency-Key is still being received',
    { hint: 'try again once it was answered' },
  );
}

export function keyConflict(): WaybillError {
  return new WaybillError('idempotency_conflict', 'this Idempotency-Key was used with another bundle', {
    hint: 'use a new key for a new bundle',
  });
}

/** Returns the error for a bug in the caller, which called `accept` after `accept` or `release`. */
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

/** Returns a cancelled run's error, which is also the abort reason of its publication. */
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
    hint: 'run it again with `waybill runs rerun`, or upload the bundle again',
  });
}

export function runNotFinished(status: RunStatus): WaybillError {
  return new WaybillError('run_not_finished', `the run has not ended: it is ${status}`, {
    hint: 'wait for its end, or cancel it',
  });
}

export function bundleGone(): WaybillError {
  return new WaybillError('bundle_gone', 'the bundle of the run is not staged any more', {
    hint: 'upload it again; server.rerun says how long bundles of failed runs are kept',
  });
}

/*
 * The rate at which runs end, and the retry time for rejected clients.
 */

/** Maximum number of run end times kept. */
export const maxEndTimes = 64;

const windowMs = 15 * 60_000;
const usualSeconds = 10;
const maxSeconds = 300;

export interface QueueLoad {
  /** Uploads and runs that occupy a slot. */
  waiting: number;
  /** End times of the most recent runs in milliseconds, oldest first, at most `maxEndTimes`. */
  endedAt: readonly number[];
  /** The current time on the same clock. */
  now: number;
  /** True if the pipeline is paused, so that no run starts until it is resumed. */
  isPaused: boolean;
}

/**
 * Estimates how many seconds all waiting runs take at the rate of the most recent runs, from 1 to 300.
 * Returns 10 seconds if fewer than two runs ended in the last 15 minutes. The time since the last end counts,
 * so the result grows while the queue is stalled. For a paused pipeline, the result is the maximum.
 */
export function retryAfterSeconds({ waiting, endedAt, now, isPaused }: QueueLoad): number {
  if (isPaused) return maxSeconds;
  const recent = endedAt.filter((at) => now - at <= windowMs);
  const [oldest] = recent;
  if (oldest === undefined || recent.length < 2) return usualSeconds;
  const msPerRun = (now - oldest) / (recent.length - 1);
  const seconds = Math.ceil((waiting * msPerRun) / 1000);
  return Math.min(Math.max(seconds, 1), maxSeconds);
}

/** End times of the most recent runs, per pipeline and overall. */
export class RunEndTimes {
  readonly #endedAt = new Map<string | null, number[]>();

  /** @param at Milliseconds on the same clock as `QueueLoad.now`. */
  note(pipelineId: string, at: number): void {
    for (const key of [pipelineId, null]) {
      const endTimes = this.#endedAt.get(key) ?? [];
      this.#endedAt.set(key, endTimes);
      endTimes.push(at);
      if (endTimes.length > maxEndTimes) endTimes.shift();
    }
  }

  /** Returns the end times of one pipeline, or of all of them together if the id is null. */
  of(pipelineId: string | null): readonly number[] {
    return this.#endedAt.get(pipelineId) ?? [];
  }
}
