import { asWaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { JobProcessor } from './job-queue.ts';
import { type RunObserver, unobserved } from './run-observer.ts';

/*
 * The spans of a run, below the span of what started it, which the job names: `wait`, from when it was queued
 * until a worker begins it, and `run`, the work of one worker, with a `destination` below it for each (on the
 * thread, by the core), and a `notify` below that for each delivery of an event (`core/notify/lane.ts`).
 */

/**
 * Does the work in a span of its own. It is called once more if the worker has to wait for a lease; each such
 * attempt is a span. A run that was accepted where nothing is traced begins a trace here.
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

/** Observes as `observer` does, and makes a span of the time that a run has waited. */
export function tracedWaits(observer: RunObserver | undefined, tracer: Tracer): RunObserver | undefined {
  if (!tracer.isOn) return observer;
  const inner = observer ?? unobserved;
  return {
    started: (run) => {
      const { job, waitedSeconds } = run;
      // Without a parent it would be a trace of its own.
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
    finished: (run) => inner.finished(run),
  };
}

function named({ runId, pipelineId }: PublishJob): Record<string, string> {
  return { 'waybill.run_id': runId, 'waybill.pipeline_id': pipelineId };
}

/** What the first destination failed with, or the source; null if nothing failed. */
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
