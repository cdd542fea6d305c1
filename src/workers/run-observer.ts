import type { Clock } from '../core/clock.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { JobProcessor, JobQueue } from './queue.ts';
import { hasSucceeded } from './run-transitions.ts';

/** Notified of what threads do, for metrics. Its methods must not throw. */
export interface RunObserver {
  /** A worker begins the run, `waitedSeconds` after it was queued. */
  started(run: { pipelineId: string; waitedSeconds: number }): void;
  /** The run took `seconds`. `result` is null if the worker broke or was stopped. */
  finished(run: { pipelineId: string; seconds: number; succeeded: boolean; result: JobResult | null }): void;
}

/**
 * The processor, whatever queue it works for, with each of its jobs reported to the observer, if there is
 * one.
 */
export function observedProcessor(
  process: JobProcessor,
  {
    queue,
    clock,
    observer,
  }: { queue: Pick<JobQueue, 'find'>; clock: Clock; observer?: RunObserver | undefined },
): JobProcessor {
  if (observer === undefined) return process;
  return async (job, context) => {
    const begun = clock.monotonic();
    void reportStart(job, queue, clock, observer);
    let result: JobResult | null = null;
    try {
      return (result = await process(job, context));
    } finally {
      const seconds = (clock.monotonic() - begun) / 1000;
      const succeeded = result !== null && hasSucceeded(result.run);
      observer.finished({ pipelineId: job.pipelineId, seconds, succeeded, result });
    }
  };
}

/** The run does not wait for this: a queue that is away must not delay it. Never rejects. */
async function reportStart(
  { runId, pipelineId }: PublishJob,
  queue: Pick<JobQueue, 'find'>,
  clock: Clock,
  observer: RunObserver,
): Promise<void> {
  const now = clock.now().getTime();
  const record = await queue.find(runId).catch(() => undefined);
  const queuedAt = Date.parse(record?.queued_at ?? '');
  if (Number.isNaN(queuedAt)) return;
  observer.started({ pipelineId, waitedSeconds: Math.max(now - queuedAt, 0) / 1000 });
}
