import type { JobResult, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Receives a queue's events about this process's runs, for metrics. Its methods must not throw.
 *
 * Across all processes of a queue, each run that started and ended is reported as finished exactly once. The
 * process whose outcome is in the record reports it. If a run was returned or taken over, the worker that
 * ends it reports it. A run that was repeated because of a dead worker's lease counts as one run.
 */
export interface RunObserver {
  /**
   * Called when a worker starts the run, `waitedSeconds` after it was queued. Not called again if the run's
   * worker died. Called again for a run that was returned to the queue, because it waited again.
   */
  started(run: { job: PublishJob; pipelineId: string; waitedSeconds: number }): void;
  /**
   * Called when an attempt failed, `seconds` after it started, and the run waits for the next one. A retry is
   * reported neither as started nor as finished. `result` is null if the worker broke.
   */
  retried(run: { job: PublishJob; record: RunRecord; seconds: number; result: JobResult | null }): void;
  /** Called instead of `finished` when a newer run replaced one that was waiting for its next try. */
  superseded(run: { pipelineId: string }): void;
  /**
   * Called when a job in Redis was not run, because no waybill host wrote it or another program changed it.
   */
  rejected(run: { pipelineId: string }): void;
  /**
   * Called when the end of the run is recorded, `seconds` after it started. `result` is null if the worker
   * broke or was stopped. `cancelled` means that the run failed because it was cancelled.
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

/** Returns how long the run was queued, in seconds. Returns 0 if it was not queued or has not started. */
export function waitedSeconds({ queued_at, started_at }: RunRecord): number {
  const seconds = (Date.parse(started_at ?? '') - Date.parse(queued_at ?? '')) / 1000;
  return Number.isNaN(seconds) ? 0 : Math.max(seconds, 0);
}
