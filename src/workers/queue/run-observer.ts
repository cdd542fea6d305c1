import { asWaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Notified about this process's runs, for metrics. Its methods must not throw.
 *
 * Every run that started and ended is reported as finished exactly once, no matter how many processes the
 * queue has. The report comes from the process whose outcome is stored in the record. If a run went back to
 * the queue or was taken over by another worker, that is the worker that ends it. A run that had to be
 * repeated because of a dead worker's lease still counts as a single run.
 */
export interface RunObserver {
  /**
   * Called when a worker starts the run, `waitedSeconds` after it was queued. If the worker dies, this is not
   * called again. If the run goes back to the queue, it is, because the run waits again.
   */
  started(run: { job: PublishJob; pipelineId: string; waitedSeconds: number }): void;
  /**
   * Called when an attempt fails, `seconds` after it started, and the run will be retried. The next attempt
   * is not reported as started, and this one is not reported as finished. `result` is null if the worker
   * crashed.
   */
  retried(run: { job: PublishJob; record: RunRecord; seconds: number; result: JobResult | null }): void;
  /** Called instead of `finished` when a newer run replaces one that was waiting for its next attempt. */
  superseded(run: { pipelineId: string }): void;
  /**
   * Called when a job in Redis was not run, because it was not written by a waybill host or was changed by
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

export const noRunObserver: RunObserver = {
  started: () => undefined,
  retried: () => undefined,
  superseded: () => undefined,
  rejected: () => undefined,
  finished: () => undefined,
};

/** Returns for how many seconds the run was queued. Returns 0 if it was never queued or has not started. */
export function waitedSeconds({ queued_at, started_at }: RunRecord): number {
  const seconds = (Date.parse(started_at ?? '') - Date.parse(queued_at ?? '')) / 1000;
  return Number.isNaN(seconds) ? 0 : Math.max(seconds, 0);
}

/*
 * The tracing spans of a run. They are children of the span stored in the job. `wait` covers the time in the
 * queue, until a worker starts the run. `run` covers the work of one worker. Below it, there is a
 * `destination` span for each destination, created by the core on the thread. Every delivery of an event adds
 * a `notify` span below that (see `core/notify/delivery-queue.ts`).
 */

type Process<Context> = (job: PublishJob, context: Context) => Promise<JobResult>;

/**
 * Gives every job its own span. A job that is repeated because of a lease gets a new one. If a run does not
 * have a trace context, a new trace starts here.
 */
export function tracedRuns<Context>(process: Process<Context>, tracer: Tracer): Process<Context> {
  if (!tracer.isOn) return process;
  return async (job, context) => {
    const span = tracer.start('run', { parent: traceOf(job), kind: 'consumer', attributes: named(job) });
    try {
      const result = await process({ ...job, ...span.trace }, context);
      const code = failureOf(result);
      if (code !== null) span.fail(code);
      return result;
    } catch (error) {
      span.fail(asWaybillError(error).code);
      throw error;
    } finally {
      span.end();
    }
  };
}

/** Records how long each run waited as a span, and forwards all calls to `observer`. */
export function tracedWaits(observer: RunObserver | undefined, tracer: Tracer): RunObserver | undefined {
  if (!tracer.isOn) return observer;
  const inner = observer ?? noRunObserver;
  return {
    started: (run) => {
      const { job, waitedSeconds } = run;
      // Without a parent, this span would start a new trace.
      if (job.traceparent !== undefined)
        tracer
          .start('wait', {
            parent: traceOf(job),
            kind: 'internal',
            attributes: named(job),
            agoMs: waitedSeconds * 1000,
          })
          .end();
      inner.started(run);
    },
    retried: (run) => inner.retried(run),
    superseded: (run) => inner.superseded(run),
    rejected: (run) => inner.rejected(run),
    finished: (run) => inner.finished(run),
  };
}

function named({ runId, pipelineId }: PublishJob): Record<string, string> {
  return { 'waybill.run_id': runId, 'waybill.pipeline_id': pipelineId };
}

/** Returns the error of the source, or else of the first failed destination. null if nothing failed. */
function failureOf({ run }: JobResult): string | null {
  for (const { error, status, destinations } of run.pipelines) {
    if (error !== null) return error.code;
    for (const { actions } of destinations) {
      const failed = actions.find((action) => action.error !== null);
      if (failed?.error) return failed.error.code;
    }
    if (status === 'failed') return 'invalid_bundle';
  }
  return null;
}
