import { asWaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { JobProcessor } from './job-queue.ts';
import { type RunObserver, unobserved } from './run-observer.ts';

/*
 * The spans of a run. Their parent is the span in the job. `wait` lasts from queueing until a worker starts
 * the run. `run` covers one worker's work, with a `destination` child for each destination, which the core
 * creates on the thread. Each delivery of an event has a `notify` span below that
 * (`core/notify/delivery-queue.ts`).
 */

/**
 * Runs each job in its own span. If a job is repeated because of a lease, it gets another span. A run without
 * a trace context starts a new trace here.
 */
export function tracedRuns(process: JobProcessor, tracer: Tracer): JobProcessor {
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

/** Forwards calls to `observer`, and records a span for the time that each run waited. */
export function tracedWaits(observer: RunObserver | undefined, tracer: Tracer): RunObserver | undefined {
  if (!tracer.isOn) return observer;
  const inner = observer ?? unobserved;
  return {
    started: (run) => {
      const { job, waitedSeconds } = run;
      // Without a parent, the span would become a separate trace.
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

/** Returns the error of the source or of the first failed destination, or null if nothing failed. */
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
