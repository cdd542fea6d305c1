import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobProgress, JobResult } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { cancelled } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { progressedRun } from '../queue/run-transitions.ts';
import type { TakenRun } from './run-store.ts';

/** The result of a run on this host: the worker's result, or the error that ended it. */
export type Outcome = { result: JobResult } | { error: unknown };

export interface AttemptOptions {
  clock: Clock;
  log: Log;
  process: JobProcessor;
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
}

/** A run fails after this many workers have died while running it. */
const maxTakes = 5;
/** A killed worker leaves its lease behind at the destination. The lease becomes stale after two minutes. */
const staleLeaseMs = 180_000;
const busyPauseMs = 5_000;

/**
 * Runs a job that this worker has taken. If an earlier worker died during the run, its lease may remain. In
 * that case this function waits up to three minutes for the lease to expire. Never rejects.
 */
export async function attempt(taken: TakenRun, options: AttemptOptions): Promise<Outcome> {
  const { takes, begunAt } = taken;
  const job = begunAt === null ? taken.job : { ...taken.job, begunAt };
  const { clock, log, process, signal, onProgress } = options;
  if (taken.isCancelled) return { error: cancelled() };
  if (takes > maxTakes) return { error: tooManyTakes() };
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
 * Reports whether another worker holds the lease of at least one destination. Failures at other destinations
 * must not prevent a retry there.
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
  return new WaybillError('worker_failed', `${maxTakes} workers ended while they published this bundle`, {
    hint: 'look into the logs of the workers for what ended them, then upload it again',
  });
}

const pauseMs = 200;

/**
 * Keeps the record of a run in progress up to date. Saves at most five times per second and runs one save at
 * a time. If a save fails, the next one replaces it.
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

  /** Stops saving. Resolves once no save is in progress. */
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
