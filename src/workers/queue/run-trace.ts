import { asWaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { JobProcessor } from './job-queue.ts';
import { type RunObserver, unobserved } from './run-observer.ts';

/*
 * The tracing spans of a run. They are children of the span stored in the job. `wait` covers the time in the
 * queue, until a worker starts the run. `run` covers the work of one worker. Below it, there is a
 * `destination` span for each destination, created by the core on the thread. Every delivery of an event adds
 * a `notify` span below that (see `core/notify/delivery-queue.ts`).
 */

/**
 * Gives every job its own span. A job that is repeated because of a lease gets a new one. If a run doesn't
 * have a trace context, a new trace starts here.
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

/** Records how long each run waited as a span, and forwards all calls to `observer`. */
export function tracedWaits(observer: RunObserver | undefined, tracer: Tracer): RunObserver | undefined {
  if (!tracer.isOn) return observer;
  const inner = observer ?? unobserved;
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
