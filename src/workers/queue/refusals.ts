import { WaybillError } from '../../core/lib/errors.ts';
import type { RunStatus } from './run-record.ts';

/*
 * Why an upload or a run is not taken, in the same words for every queue.
 */

/** @param retryAfterSeconds When there may be room again. */
export function queueFull(queueSize: number, retryAfterSeconds: number): WaybillError {
  return new WaybillError('queue_full', `all ${queueSize} upload slots are taken`, {
    hint: 'try again later',
    retryAfterSeconds,
  });
}

/** @param retryAfterSeconds When there may be room again. */
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

/** A defect of the caller: `accept` after `accept` or `release`. */
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

/** What a run ends with that somebody cancelled, and what its publication is stopped with. */
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
 * How fast runs end, and when whoever was refused had better come back. Pure.
 */

/** So many ends of runs are remembered. */
export const maxEnds = 64;

const windowMs = 15 * 60_000;
const usualSeconds = 10;
const maxSeconds = 300;

export interface Pace {
  /** Uploads and runs that hold a slot. */
  waiting: number;
  /** When the last runs ended, in milliseconds, the oldest first; at most `maxEnds`. */
  endedAt: readonly number[];
  /** Now, on the same clock. */
  now: number;
  /** Nothing begins until somebody resumes the pipeline. */
  isPaused: boolean;
}

/**
 * The seconds that all who wait will take at the pace at which the last runs ended, from 1 to 300; 10 if
 * fewer than two ended in the last quarter of an hour. A pause since the last end counts: a queue that stands
 * still sends clients away for longer and longer, and one that is paused for the longest time.
 */
export function retryAfterSeconds({ waiting, endedAt, now, isPaused }: Pace): number {
  if (isPaused) return maxSeconds;
  const recent = endedAt.filter((at) => now - at <= windowMs);
  const [oldest] = recent;
  if (oldest === undefined || recent.length < 2) return usualSeconds;
  const msPerRun = (now - oldest) / (recent.length - 1);
  const seconds = Math.ceil((waiting * msPerRun) / 1000);
  return Math.min(Math.max(seconds, 1), maxSeconds);
}

/** The ends of the last runs, of each pipeline and of all together. */
export class Ends {
  readonly #endedAt = new Map<string | null, number[]>();

  /** @param at Milliseconds on the clock of the `Pace` that they are for. */
  note(pipelineId: string, at: number): void {
    for (const whose of [pipelineId, null]) {
      const ends = this.#endedAt.get(whose) ?? [];
      this.#endedAt.set(whose, ends);
      ends.push(at);
      if (ends.length > maxEnds) ends.shift();
    }
  }

  /** Of one pipeline, or of all together. */
  of(pipelineId: string | null): readonly number[] {
    return this.#endedAt.get(pipelineId) ?? [];
  }
}
