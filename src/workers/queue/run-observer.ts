import type { JobResult, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Receives a queue's events about the runs of this process, for metrics. Its methods must not throw.
 *
 * Over all processes of a queue, each run that ended after it began is reported as finished once. The
 * reporter is the process whose outcome is in the record. If a run was returned or taken over, the worker
 * that ends it reports it. A run that was repeated because of a dead worker's lease counts as one run.
 */
export interface RunObserver {
  /**
   * A worker begins the run, `waitedSeconds` after it was queued. Not called again if the run's worker died.
   * Called again for a run that was returned to the queue, because it waited again.
   */
  started(run: { job: PublishJob; pipelineId: string; waitedSeconds: number }): void;
  /**
   * A try has failed, `seconds` after it began, and the run waits for the next one. A retry is reported
   * neither as started nor as finished. `result` is null if the worker broke.
   */
  retried(run: { job: PublishJob; record: RunRecord; seconds: number; result: JobResult | null }): void;
  /** A newer run replaced one that was waiting for its next try. Called instead of `finished`. */
  superseded(run: { pipelineId: string }): void;
  /** A job in Redis that no host of waybill wrote, or that another program changed, was not run. */
  rejected(run: { pipelineId: string }): void;
  /**
   * Returns the end of the run is recorded, `seconds` after it began. `result` is null if the worker broke or
   * was stopped. `cancelled`: the run failed because it was cancelled.
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

/** How long the run was queued, in seconds; 0 if it was not queued or has not begun. */
export function waitedSeconds({ queued_at, started_at }: RunRecord): number {
  const seconds = (Date.parse(started_at ?? '') - Date.parse(queued_at ?? '')) / 1000;
  return Number.isNaN(seconds) ? 0 : Math.max(seconds, 0);
}
