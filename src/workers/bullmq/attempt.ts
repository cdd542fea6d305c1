import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobProgress, JobResult } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { cancelled } from '../queue/refusals.ts';
import type { Taken } from './run-store.ts';

/** What came of a run here: the worker's result, or why it broke or was stopped. */
export type Outcome = { result: JobResult } | { error: unknown };

export interface AttemptOptions {
  clock: Clock;
  log: Log;
  process: JobProcessor;
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
}

/** A run that has brought down this many workers is not given to another. */
const mostTakes = 5;
/** A killed worker leaves its lease at the destination, which is stale after two minutes. */
const staleLeaseMs = 180_000;
const busyPauseMs = 5_000;

/**
 * Runs a job that was taken. If another worker has begun it before and died, this waits for the lease that it
 * may have left, for three minutes at most. Never rejects.
 */
export async function attempt(taken: Taken, options: AttemptOptions): Promise<Outcome> {
  const { takes, isCancelled, begunAt } = taken;
  const job = begunAt === null ? taken.job : { ...taken.job, begunAt };
  const { clock, log, process, signal, onProgress } = options;
  if (isCancelled) return { error: cancelled() };
  if (takes > mostTakes) return { error: tooManyTakes() };
  const patientUntil = clock.monotonic() + (takes > 1 ? staleLeaseMs : 0);
  for (;;) {
    try {
      const result = await process(job, { signal, onProgress });
      if (!isBusy(result) || clock.monotonic() >= patientUntil || signal.aborted) return { result };
      log.info({ run_id: job.runId }, 'waiting for the lease of the worker that died');
      await clock.sleep(busyPauseMs, signal);
    } catch (error) {
      return { error };
    }
  }
}

/**
 * Whether someone else holds the lease of a destination. One such destination is enough, whatever failed at
 * the others: their failures must not keep this one from being published.
 */
function isBusy({ run }: JobResult): boolean {
  return run.pipelines
    .flatMap(({ error, destinations }) => [
      error,
      ...destinations.flatMap(({ actions }) => actions.map((action) => action.error)),
    ])
    .some((error) => error?.code === 'destination_busy');
}

function tooManyTakes(): WaybillError {
  return new WaybillError('worker_failed', `${mostTakes} workers ended while they published this bundle`, {
    hint: 'look into the logs of the workers for what ended them, then upload it again',
  });
}
