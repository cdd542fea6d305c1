import type { Clock } from '../core/clock.ts';
import type { JobResult, PublishJob } from './job.ts';
import type { JobProcessor, JobQueue } from './queue.ts';
import { hasSucceeded } from './run-transitions.ts';

/** Is told what threads do; for metrics. Its methods do not throw. */
export interface RunObserver {
  /** The run's turn came, this long after it was queued. */
  started(run: { pipelineId: string; waitedSeconds: number }): void;
  /** The run is over. `result` is null where the worker broke or was told to stop. */
  finished(run: { pipelineId: string; seconds: number; succeeded: boolean; result: JobResult | null }): void;
}

/** The processor with an observer beside it, whatever queue it works for. */
export function observedProcessor(
  process: JobProcessor,
  { queue, clock, observer }: { queue: Pick<JobQueue, 'find'>; clock: Clock; observer: RunObserver },
): JobProcessor {
  return async (job, context) => {
    const begun = clock.monotonic();
    void tellStarted(job, queue, clock, observer);
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

/**
 * Beside the run, which never waits for it: a queue that is away must not hold up what runs. Never rejects.
 */
async function tellStarted(
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
