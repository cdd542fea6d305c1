import type { JobResult, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Notified by a queue of the runs that this process works on, for metrics. Its methods must not throw.
 *
 * Over all processes of a queue each run that ended after its turn is reported as finished once: by the
 * process whose outcome stands in the record. A run that was given back, or was taken over by another worker,
 * is reported by whoever brings it to its end; one that was tried again for the lease of a dead worker is
 * one run.
 */
export interface RunObserver {
  /**
   * A worker begins the run, `waitedSeconds` after it was queued. Not reported of a run whose worker died, as
   * it had its turn before; reported again of one that was given back, as it had to wait again.
   */
  started(run: { job: PublishJob; pipelineId: string; waitedSeconds: number }): void;
  /**
   * A try of the run has failed, `seconds` after it began, and the run waits for its next one. That is
   * reported neither as started nor as finished. `result` is null if the worker broke.
   */
  retried(run: { job: PublishJob; record: RunRecord; seconds: number; result: JobResult | null }): void;
  /** A newer run replaced one that waited for its next try. Reported instead of `finished`. */
  superseded(run: { pipelineId: string }): void;
  /**
   * The end of the run is recorded, `seconds` after it began. `result` is null if the worker broke or was
   * stopped; `cancelled`: it failed because somebody cancelled it.
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
  finished: () => undefined,
};

/** How long the run waited for its turn, in seconds; 0 if it was not queued or has not begun. Pure. */
export function waitedSeconds({ queued_at, started_at }: RunRecord): number {
  const seconds = (Date.parse(started_at ?? '') - Date.parse(queued_at ?? '')) / 1000;
  return Number.isNaN(seconds) ? 0 : Math.max(seconds, 0);
}
