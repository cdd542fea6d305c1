import type { Job } from 'bullmq';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError, errorRecord, hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { allSucceeded } from '../../core/publish/results/result.ts';
import { traceFields } from '../../core/tracing/trace-context.ts';
import type { JobProgress, PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { isKept, isRerunnable, stagedBytes } from '../queue/kept-bundles.ts';
import { type RunObserver, waitedSeconds } from '../queue/run-observer.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { afterFailure, nextTryOf, pauseOf, type RetriesOf, supersededRun } from '../queue/run-retry.ts';
import {
  cancelledRun,
  failedRun,
  finishedRun,
  isCancelled,
  returnedRun,
  startedRun,
} from '../queue/run-transitions.ts';
import { attempt, type Outcome, ProgressSaver } from './attempt.ts';
import type { PipelineQueues } from './pipelines.ts';
import type { Rejected, RunStore, TakenRun } from './run-store.ts';
import { newerOf } from './superseding.ts';
import { foreignTicket, isRunId, type Ticket } from './tickets.ts';

export interface RunWorkerOptions {
  store: RunStore;
  pipelines: PipelineQueues;
  clock: Clock;
  log: Log;
  process: JobProcessor;
  observer: RunObserver;
  retries: RetriesOf;
  retentionMs: number;
  /** Removes a job's staged files, but keeps its record. */
  discard: (job: PublishJob) => Promise<void>;
  /** See `BullmqQueueOptions.onOutcome`. */
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** See `BullmqQueueOptions.flushed`. */
  flushed: () => Promise<void>;
}

/** A run's BullMQ job, along with the token that holds the lock on it. */
interface Locked {
  job: Job<Ticket>;
  token: string;
}

/** The number of ended runs to remember, so that none of them runs again. */
const maxEnded = 1_000;
const maxRetryPauseMs = 2_000;
/** Job ids may come from another program. Longer ones are truncated in the log. */
const maxIdCharacters = 200;
/** The time to wait for Redis while shutting down, in milliseconds. */
const closeTimeoutMs = 20_000;

/** Executes the jobs that this host has locked, and records how they ended in the store and in BullMQ. */
export class RunWorker {
  readonly #options: RunWorkerOptions;
  readonly #ended = new Map<string, { record: RunRecord; bytes: number | null }>();
  readonly #abandoned = new AbortController();
  #isStopping = false;

  constructor(options: RunWorkerOptions) {
    this.#options = options;
  }

  /** From now on, runs that don't succeed are returned to the queue. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Waits for the work to finish. After `closeTimeoutMs`, calls to Redis are no longer retried. */
  async finish(work: Promise<unknown>): Promise<void> {
    const timer = this.#options.clock.timeout(closeTimeoutMs, () => this.#abandoned.abort());
    await work;
    timer.cancel();
  }

  /**
   * Runs a locked job to the end, and keeps retrying while Redis is unreachable. Resolves with true if the
   * run went back to the queue because this process is shutting down.
   */
  async run(locked: Locked, signal: AbortSignal): Promise<boolean> {
    const { store, pipelines, clock } = this.#options;
    const { job, token } = locked;
    const run = { runId: job.id ?? '', pipelineId: job.queueName };
    const taken = isRunId(run.runId)
      ? await this.#retryUntilAvailable(() => store.take(run, token, clock.now()))
      : 'unknown';
    // The run has ended, but its worker died before it could end the job.
    if (taken === null) await this.#retryUntilAvailable(() => pipelines.end(job, token, null));
    else if (taken === 'unknown') await this.#setAside(locked);
    // Since we checked, the pipeline was paused or another worker renewed its hold on the run.
    else if (taken === 'paused' || taken === 'held')
      await this.#retryUntilAvailable(() => pipelines.requeue(job, token));
    // The attempt failed, but its worker died before it could postpone the job.
    else if ('pauseMs' in taken) await this.#retryUntilAvailable(() => pipelines.postpone(job, token, taken));
    else if (await this.#endAgain(locked)) return false;
    else if ('rejection' in taken) await this.#refuse(locked, taken);
    else if (!(await this.#supersede(locked, taken))) return this.#try(locked, taken, signal);
    return false;
  }

  /**
   * Ends a run again if this host has already ended it. Returns false if it hasn't. This only happens if
   * Redis was edited by hand or lost its latest writes.
   */
  async #endAgain({ job, token }: Locked): Promise<boolean> {
    const { log, pipelines } = this.#options;
    const known = this.#ended.get(job.id ?? '');
    if (known === undefined) return false;
    log.error({ run_id: job.id }, 'a run that has ended was in the queue again; it is not repeated');
    await this.#recordEnd(token, known.record, known.bytes);
    await this.#retryUntilAvailable(() => pipelines.end(job, token, known.record));
    return true;
  }

  /** Ends a job that has no run, because another program either added the job or removed the run. */
  async #setAside({ job, token }: Locked): Promise<void> {
    const { log, pipelines, observer } = this.#options;
    const run_id = job.id?.slice(0, maxIdCharacters);
    log.error(
      { run_id, pipeline_id: job.queueName, err: foreignTicket() },
      'a job in the queue was rejected',
    );
    await this.#retryUntilAvailable(() => pipelines.reject(job, token));
    observer.rejected({ pipelineId: job.queueName });
  }

  /** Ends a run whose job or record can't be parsed or isn't authentic. */
  async #refuse({ job, token }: Locked, { record, rejection }: Rejected): Promise<void> {
    const { log, clock, pipelines, observer } = this.#options;
    const { run_id, pipeline_id } = record;
    log.error({ run_id, pipeline_id, err: rejection }, 'run refused');
    const failed = failedRun(record, errorRecord(rejection), clock.now());
    await this.#recordEnd(token, { ...failed, rerunnable: false }, null);
    await this.#retryUntilAvailable(() => pipelines.end(job, token, failed));
    observer.finished({
      pipelineId: pipeline_id,
      seconds: 0,
      succeeded: false,
      cancelled: false,
      result: null,
    });
    observer.rejected({ pipelineId: pipeline_id });
  }

  /** Ends a run if it has been replaced by a newer one since its last attempt. Returns false if it hasn't. */
  async #supersede(locked: Locked, { job, record, isCancelled: isCancelling }: TakenRun): Promise<boolean> {
    const { store, clock, retries, onOutcome } = this.#options;
    if (record.attempt === 1 || isCancelling) return false;
    const newer = await this.#retryUntilAvailable(() => newerOf(store, job, retries));
    if (newer === undefined) return false;
    const superseded = supersededRun(record, newer, clock.now());
    onOutcome(job, superseded);
    await this.#keepEvents();
    await this.#end(locked, job, superseded);
    return true;
  }

  /** Runs one attempt. Resolves with true if the run was returned to the queue. */
  async #try(locked: Locked, taken: TakenRun, signal: AbortSignal): Promise<boolean> {
    const { store, pipelines, clock, log, observer } = this.#options;
    const { job } = taken;
    const { runId, pipelineId } = job;
    const fields = { run_id: runId, pipeline_id: pipelineId, ...traceFields(job) };
    log.info({ ...fields, take: taken.takes, attempt: taken.record.attempt }, 'run started');
    const begun = startedRun(taken.record, clock.now());
    if (taken.takes === 1 && begun.attempt === 1)
      observer.started({ job, pipelineId, waitedSeconds: waitedSeconds(begun) });
    const since = clock.monotonic();
    await this.#retryUntilAvailable(() => store.save(locked.token, begun));
    const progress = new ProgressSaver(begun, clock, (record) => store.save(locked.token, record));
    const { process } = this.#options;
    const onProgress = (message: JobProgress): void => progress.add(message);
    const outcome = await attempt(taken, { clock, log, process, signal, onProgress });
    const seconds = (clock.monotonic() - since) / 1000;
    await progress.stop();
    const wasCancelled =
      taken.isCancelled ||
      hasCode(signal.reason, 'cancelled') ||
      (hasFailed(outcome) && (await this.#isCancelled(runId)));
    const ended = recordAfter(progress.record, outcome, wasCancelled, clock.now());
    if (this.#isStopping && ended.status !== 'succeeded' && !wasCancelled) {
      await this.#keepEvents();
      log.info(fields, 'run returned to the queue');
      await this.#retryUntilAvailable(() => store.requeue(locked.token, returnedRun(taken.record)));
      await this.#retryUntilAvailable(() => pipelines.requeue(locked.job, locked.token));
      return true;
    }
    await this.#conclude(locked, job, ended, { outcome, seconds, fields });
    return false;
  }

  /** Checks whether the run was cancelled, since the message may not have arrived yet. */
  async #isCancelled(runId: string): Promise<boolean> {
    return (await this.#retryUntilAvailable(() => this.#options.store.cancelled([runId]))).length > 0;
  }

  /** Records the outcome of an attempt. The run has then either ended, or is waiting for its next attempt. */
  async #conclude(
    locked: Locked,
    job: PublishJob,
    ended: RunRecord,
    { outcome, seconds, fields }: { outcome: Outcome; seconds: number; fields: object },
  ): Promise<void> {
    const { clock, log, observer, onOutcome } = this.#options;
    const { pipelineId } = job;
    const next = await this.#afterTry(job, ended);
    onOutcome(job, next);
    await this.#keepEvents();
    const result = 'result' in outcome ? outcome.result : null;
    if (next.status === 'queued' && (await this.#postpone(locked, next))) {
      observer.retried({ job, record: next, seconds, result });
      log.warn({ ...fields, ...nextTryOf(next) }, 'run failed; it will be retried');
      return;
    }
    const last = next.status === 'queued' ? cancelledRun(ended, null, clock.now()) : next;
    if (!(await this.#end(locked, job, last))) return;
    const { status } = last;
    const succeeded = status === 'succeeded';
    observer.finished({ pipelineId, seconds, succeeded, cancelled: isCancelled(last), result });
    log.info({ ...fields, status }, 'run finished');
    if ('error' in outcome) log.error({ ...fields, err: outcome.error }, 'run failed');
  }

  /** Returns the run's record after an attempt. It is either final, or queued for the next attempt. */
  async #afterTry(job: PublishJob, ended: RunRecord): Promise<RunRecord> {
    const { store, clock, retries } = this.#options;
    if (ended.status !== 'failed') return ended;
    const next = afterFailure(ended, clock.now(), retries(job.pipelineId));
    if (next === ended) return ended;
    const newer = await this.#retryUntilAvailable(() => newerOf(store, job, retries));
    return newer === undefined ? next : supersededRun(ended, newer, clock.now());
  }

  /** Schedules the run's next attempt. Returns false if it was cancelled or now belongs to another worker. */
  async #postpone({ job, token }: Locked, next: RunRecord): Promise<boolean> {
    const { store, pipelines, clock, retries } = this.#options;
    const blocks = retries(next.pipeline_id).whileRetrying === 'wait';
    const wait = { pauseMs: pauseOf(next, clock.now()), blocks };
    const outcome = await this.#retryUntilAvailable(() => store.retry(token, next, wait));
    if (outcome === 'ok') await this.#retryUntilAvailable(() => pipelines.postpone(job, token, wait));
    return outcome === 'ok';
  }

  /** Records the end of a run and ends its job. Returns false if another worker has claimed the run. */
  async #end({ job, token }: Locked, of: PublishJob, last: RunRecord): Promise<boolean> {
    const { pipelines, log, discard } = this.#options;
    const record = { ...last, rerunnable: isRerunnable(of, last) };
    const keeps = isKept(of, record);
    if (!(await this.#recordEnd(token, record, keeps ? stagedBytes(of) : null))) {
      const { runId } = of;
      log.warn({ run_id: runId }, 'another worker has taken this run over; its outcome here is dropped');
      return false;
    }
    await this.#retryUntilAvailable(() => pipelines.end(job, token, record));
    if (!keeps) await discard(of);
    return true;
  }

  async #recordEnd(token: string, record: RunRecord, bytes: number | null): Promise<boolean> {
    const { store, retentionMs } = this.#options;
    if (!(await this.#retryUntilAvailable(() => store.finish(token, record, { retentionMs, bytes }))))
      return false;
    this.#ended.set(record.run_id, { record, bytes });
    for (const oldest of this.#ended.keys()) if (this.#ended.size > maxEnded) this.#ended.delete(oldest);
    return true;
  }

  /**
   * Waits until all events of this attempt have been stored. If this worker dies before it records the
   * outcome, the next worker sends any missing events. Once the outcome is recorded, no other worker would.
   */
  #keepEvents(): Promise<void> {
    return this.#retryUntilAvailable(() => promised(this.#options.flushed(), this.#abandoned.signal));
  }

  /** Retries the call until Redis responds, or until this process gives up because it is shutting down. */
  async #retryUntilAvailable<T>(work: () => Promise<T>): Promise<T> {
    const { clock } = this.#options;
    const { signal } = this.#abandoned;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, maxRetryPauseMs)) {
      try {
        return await work();
      } catch (error) {
        if (!hasCode(error, 'queue_unavailable') || signal.aborted) throw error;
        await clock.sleep(pauseMs, signal).catch(() => undefined);
      }
    }
  }
}

function hasFailed(outcome: Outcome): boolean {
  return 'error' in outcome || !allSucceeded(outcome.result.run.pipelines);
}

/** Returns a run's record after an attempt. */
function recordAfter(record: RunRecord, outcome: Outcome, isCancelling: boolean, now: Date): RunRecord {
  if (isCancelling) return cancelledRun(record, 'result' in outcome ? outcome.result.run : null, now);
  return 'result' in outcome
    ? finishedRun(record, outcome.result.run, now)
    : failedRun(record, errorRecord(asWaybillError(outcome.error)), now);
}

/** Waits for `work`. Throws a `queue_unavailable` error if `signal` aborts first. */
async function promised(work: Promise<void>, signal: AbortSignal): Promise<void> {
  let release: () => void = () => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    release = onAbort(signal, () =>
      reject(new WaybillError('queue_unavailable', 'this process ends before redis is back')),
    );
  });
  await Promise.race([work, aborted]).finally(release);
}
