import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobProgress, JobResult } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { cancelled } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { progressedRun } from '../queue/run-transitions.ts';
import type { ClaimedRun } from './run-claims.ts';

/** The outcome of a run on this host: the worker's result, or the error that ended the run. */
export type AttemptOutcome = { result: JobResult } | { error: unknown };

interface RunAttemptOptions {
  clock: Clock;
  log: Log;
  process: JobProcessor;
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
}

/** A run fails once this many workers have died while running it. */
const maxClaims = 5;
/**
 * A worker that is killed cannot release its lease at the destination. The lease goes stale after two
 * minutes.
 */
const staleLeaseMs = 180_000;
const busyPauseMs = 5_000;

/**
 * Runs a job that this worker has claimed. If an earlier worker died in the middle of the run, its lease may
 * still be there, so this waits up to three minutes for it to expire. Never rejects.
 */
export async function runAttempt(claimed: ClaimedRun, options: RunAttemptOptions): Promise<AttemptOutcome> {
  const { claimCount, begunAt } = claimed;
  const job = begunAt === null ? claimed.job : { ...claimed.job, begunAt };
  const { clock, log, process, signal, onProgress } = options;
  if (claimed.isCancelled) return { error: cancelled() };
  if (claimCount > maxClaims) return { error: tooManyClaims() };
  const patientUntil = clock.monotonic() + (claimCount > 1 ? staleLeaseMs : 0);
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
 * Reports whether at least one destination is leased by another worker. If so, a retry is worthwhile, even if
 * other destinations have failed for good.
 */
function isBusy({ run }: JobResult): boolean {
  return run.pipelines
    .flatMap(({ error, destinations }) => [
      error,
      ...destinations.flatMap(({ actions }) => actions.map((action) => action.error)),
    ])
    .some((error) => error?.code === 'destination_busy');
}

function tooManyClaims(): WaybillError {
  return new WaybillError('worker_failed', `${maxClaims} workers crashed while they published this bundle`, {
    hint: 'find the cause in the logs of the workers, then upload it again',
  });
}

const pauseMs = 200;

/**
 * Keeps a running job's record up to date. It saves at most five times per second and never runs two saves at
 * once. A failed save is not retried, since the next one overwrites it anyway.
 */
export class ProgressSaver {
  record: RunRecord;
  readonly #clock: Clock;
  readonly #store: (record: RunRecord) => Promise<unknown>;
  #saving: Promise<unknown> | undefined;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(begun: RunRecord, clock: Clock, store: (record: RunRecord) => Promise<unknown>) {
    this.record = begun;
    this.#clock = clock;
    this.#store = store;
  }

  add(message: JobProgress): void {
    this.record = progressedRun(this.record, message, this.#clock.now());
    this.#saveLater();
  }

  /** Stops saving, and resolves once the save in progress (if any) has finished. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#saving;
  }

  #saveLater(): void {
    if (this.#isStopped || this.#timer !== undefined || this.#saving !== undefined) return;
    this.#timer = this.#clock.timeout(pauseMs, () => this.#save());
  }

  #save(): void {
    this.#timer = undefined;
    const saved = this.record;
    this.#saving = this.#store(saved)
      .catch(() => undefined)
      .finally(() => {
        this.#saving = undefined;
        if (this.record !== saved) this.#saveLater();
      });
  }
}
