import type { JobResult, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Notified about this process's runs, for metrics. Its methods must not throw.
 *
 * Every run that started and ended is reported as finished exactly once, no matter how many processes the
 * queue has. The report comes from the process whose outcome is stored in the record. If a run went back to
 * the queue or was taken over by another worker, that's the worker that ends it. A run that had to be
 * repeated because of a dead worker's lease still counts as a single run.
 */
export interface RunObserver {
  /**
   * Called when a worker starts the run, `waitedSeconds` after it was queued. If the worker dies, this isn't
   * called again. If the run goes back to the queue, it is, because the run waits again.
   */
  started(run: { job: PublishJob; pipelineId: string; waitedSeconds: number }): void;
  /**
   * Called when an attempt fails, `seconds` after it started, and the run will be retried. The next attempt
   * isn't reported as started, and this one isn't reported as finished. `result` is null if the worker
   * crashed.
   */
  retried(run: { job: PublishJob; record: RunRecord; seconds: number; result: JobResult | null }): void;
  /** Called instead of `finished` when a newer run replaces one that was waiting for its next attempt. */
  superseded(run: { pipelineId: string }): void;
  /**
   * Called when a job in Redis was not run, because it wasn't written by a waybill host or was changed by
   * another program.
   */
  rejected(run: { pipelineId: string }): void;
  /**
   * Called when the end of the run has been recorded, `seconds` after the run started. `result` is null if
   * the worker crashed or was stopped. `cancelled` means that the run failed because it was cancelled.
   */
  finished(run: {
    pipelineId: string;
    seconds: number;
    succeeded: boolean;
    cancelled: boolean;
    result: JobResult | null;
  }): void;
}

export const unobserved: RunObserver = {
  started: () => undefined,
  retried: () => undefined,
  superseded: () => undefined,
  rejected: () => undefined,
  finished: () => undefined,
};

/** Returns for how many seconds the run was queued. Returns 0 if it was never queued or hasn't started. */
export function waitedSeconds({ queued_at, started_at }: RunRecord): number {
  const seconds = (Date.parse(started_at ?? '') - Date.parse(queued_at ?? '')) / 1000;
  return Number.isNaN(seconds) ? 0 : Math.max(seconds, 0);
}
