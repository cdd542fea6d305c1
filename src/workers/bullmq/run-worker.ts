import type { Timer } from '../../core/lib/clock.ts';
import { asWaybillError, errorRecord, hasCode, WaybillError } from '../../core/lib/errors.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { allSucceeded } from '../../core/publish/results/result.ts';
import { traceFields } from '../../core/tracing/trace-context.ts';
import { isBundleRetained, isRerunnable, stagedBytes } from '../queue/bundle-retention.ts';
import type { PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { type RunObserver, waitedSeconds } from '../queue/run-observer.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { retryDelayMs, retryLogFields, retryOrFail, supersededRun } from '../queue/run-retry.ts';
import {
  cancelledRun,
  failedRun,
  finishedRun,
  isCancelled,
  returnedRun,
  startedRun,
} from '../queue/run-transitions.ts';
import type { QueueContext } from './bullmq-options.ts';
import { type AttemptOutcome, ProgressSaver, runAttempt } from './run-attempt.ts';
import type { ClaimedRun, ClaimResult } from './run-claims.ts';
import { foreignTicketError, isRunId, type Ticket } from './tickets.ts';

interface RunWorkerOptions extends QueueContext {
  process: JobProcessor;
  observer: RunObserver;
}

/** The number of ended runs to remember, so that none of them runs again. */
const maxEnded = 1_000;
/** Job ids may come from another program. Longer ones are truncated in the log. */
const maxIdCharacters = 200;
/** The time to wait for Redis while shutting down, in milliseconds. */
const closeTimeoutMs = 20_000;

/** Executes the runs whose tickets this host has locked, and records how they ended, also in BullMQ. */
export class RunWorker {
  readonly #options: RunWorkerOptions;
  readonly #ended = new Map<string, { record: RunRecord; bytes: number | null }>();
  readonly #abandoned = new AbortController();
  #isStopping = false;

  constructor(options: RunWorkerOptions) {
    this.#options = options;
  }

  /**
   * From now on, runs that do not succeed are returned to the queue. When the returned timer ends, calls to
   * Redis are no longer retried.
   */
  stop(): Timer {
    this.#isStopping = true;
    return this.#options.clock.timeout(closeTimeoutMs, () => this.#abandoned.abort());
  }

  /**
   * Executes the run of a ticket to the end, and keeps retrying while Redis is unreachable. Resolves with
   * true if the run went back to the queue because this process is shutting down.
   */
  async run(ticket: Ticket, signal: AbortSignal): Promise<boolean> {
    const claim = await this.#claim(ticket);
    switch (claim.outcome) {
      // The run has ended, but its worker died before it could end the ticket.
      case 'finished':
        await this.#untilAvailable(() => ticket.end(null));
        return false;
      case 'unknown':
        await this.#rejectTicket(ticket);
        return false;
      // Since we checked, the pipeline was paused or another worker renewed its hold on the run.
      case 'paused':
      case 'held':
        await this.#untilAvailable(() => ticket.requeue());
        return false;
      // The attempt failed, but its worker died before it could postpone the ticket.
      case 'early':
        await this.#untilAvailable(() => ticket.postpone(claim));
        return false;
      case 'rejected':
        if (!(await this.#repeatEnd(ticket))) await this.#rejectRun(ticket, claim.record, claim.error);
        return false;
      case 'claimed':
        if ((await this.#repeatEnd(ticket)) || (await this.#supersede(ticket, claim))) return false;
        return this.#runAttempt(ticket, claim, signal);
    }
  }

  #claim(ticket: Ticket): Promise<ClaimResult> | ClaimResult {
    const { store, clock } = this.#options;
    if (!isRunId(ticket.runId)) return { outcome: 'unknown' };
    return this.#untilAvailable(() => store.claims.claim(ticket, ticket.token, clock.now()));
  }

  /**
   * Ends a run again if this host has already ended it. Returns false if it has not. This only happens if
   * Redis was edited by hand or lost its latest writes.
   */
  async #repeatEnd(ticket: Ticket): Promise<boolean> {
    const known = this.#ended.get(ticket.runId);
    if (known === undefined) return false;
    const fields = { run_id: ticket.runId };
    this.#options.log.error(fields, 'a run that has ended was in the queue again; it is not repeated');
    await this.#recordEnd(ticket, known.record, known.bytes);
    await this.#untilAvailable(() => ticket.end(known.record));
    return true;
  }

  /** Ends a ticket that has no run, because another program either added the ticket or removed the run. */
  async #rejectTicket(ticket: Ticket): Promise<void> {
    const { log, observer } = this.#options;
    const { pipelineId } = ticket;
    const fields = { run_id: ticket.runId.slice(0, maxIdCharacters), pipeline_id: pipelineId };
    log.error({ ...fields, err: foreignTicketError() }, 'a job in the queue was rejected');
    await this.#untilAvailable(() => ticket.reject());
    observer.rejected({ pipelineId });
  }

  /** Ends a run whose job or record cannot be parsed or is not authentic. */
  async #rejectRun(ticket: Ticket, record: RunRecord, error: unknown): Promise<void> {
    const { log, clock, observer } = this.#options;
    const { runId: run_id, pipelineId } = ticket;
    log.error({ run_id, pipeline_id: pipelineId, err: error }, 'run refused');
    const failed = failedRun(record, errorRecord(error), clock.now());
    await this.#recordEnd(ticket, { ...failed, rerunnable: false }, null);
    await this.#untilAvailable(() => ticket.end(failed));
    observer.finished({ pipelineId, seconds: 0, succeeded: false, cancelled: false, result: null });
    observer.rejected({ pipelineId });
  }

  /**
   * Ends a run if it has been replaced by a newer one since its last attempt. Returns false if it has not.
   */
  async #supersede(ticket: Ticket, { job, record, isCancelled: isCancelling }: ClaimedRun): Promise<boolean> {
    const { clock, onOutcome } = this.#options;
    if (record.attempt === 1 || isCancelling) return false;
    const newer = await this.#findNewer(job);
    if (newer === undefined) return false;
    const superseded = supersededRun(record, newer, clock.now());
    onOutcome(job, superseded);
    await this.#keepEvents();
    await this.#end(ticket, job, superseded);
    return true;
  }

  /** Runs one attempt. Resolves with true if the run was returned to the queue. */
  async #runAttempt(ticket: Ticket, claimed: ClaimedRun, signal: AbortSignal): Promise<boolean> {
    const { store, clock, log, observer, process } = this.#options;
    const { job, claimCount } = claimed;
    const { runId, pipelineId } = job;
    const save = (record: RunRecord): Promise<boolean> => store.claims.save(ticket.token, record);
    const fields = { run_id: runId, pipeline_id: pipelineId, ...traceFields(job) };
    log.info({ ...fields, take: claimCount, attempt: claimed.record.attempt }, 'run started');
    const startedRecord = startedRun(claimed.record, clock.now());
    if (claimCount === 1 && startedRecord.attempt === 1)
      observer.started({ job, pipelineId, waitedSeconds: waitedSeconds(startedRecord) });
    const since = clock.monotonic();
    await this.#untilAvailable(() => save(startedRecord));
    const progress = new ProgressSaver(startedRecord, clock, save);
    const onProgress: ProgressSaver['add'] = (message) => progress.add(message);
    const outcome = await runAttempt(claimed, { clock, log, process, signal, onProgress });
    const seconds = (clock.monotonic() - since) / 1000;
    await progress.stop();
    const wasCancelled =
      claimed.isCancelled ||
      hasCode(signal.reason, 'cancelled') ||
      (hasFailed(outcome) && (await this.#isCancelled(runId)));
    const endRecord = endedRun(progress.record, outcome, wasCancelled, clock.now());
    if (this.#isStopping && endRecord.status !== 'succeeded' && !wasCancelled) {
      await this.#keepEvents();
      log.info(fields, 'run returned to the queue');
      await this.#untilAvailable(() => store.claims.requeue(ticket.token, returnedRun(claimed.record)));
      await this.#untilAvailable(() => ticket.requeue());
      return true;
    }
    await this.#recordOutcome(ticket, job, endRecord, { outcome, seconds, fields });
    return false;
  }

  /** Checks whether the run was cancelled, since the message may not have arrived yet. */
  async #isCancelled(runId: string): Promise<boolean> {
    const { claims } = this.#options.store;
    return (await this.#untilAvailable(() => claims.findCancelled([runId]))).length > 0;
  }

  /** Records the outcome of an attempt. The run has then either ended, or is waiting for its next attempt. */
  async #recordOutcome(
    ticket: Ticket,
    job: PublishJob,
    ended: RunRecord,
    { outcome, seconds, fields }: { outcome: AttemptOutcome; seconds: number; fields: object },
  ): Promise<void> {
    const { clock, log, observer, onOutcome } = this.#options;
    const next = await this.#nextRecord(job, ended);
    onOutcome(job, next);
    await this.#keepEvents();
    const result = 'result' in outcome ? outcome.result : null;
    if (next.status === 'queued' && (await this.#postpone(ticket, next))) {
      observer.retried({ job, record: next, seconds, result });
      log.warn({ ...fields, ...retryLogFields(next) }, 'run failed; it will be retried');
      return;
    }
    const last = next.status === 'queued' ? cancelledRun(ended, null, clock.now()) : next;
    if (!(await this.#end(ticket, job, last))) return;
    const { status } = last;
    const succeeded = status === 'succeeded';
    const { pipelineId } = job;
    observer.finished({ pipelineId, seconds, succeeded, cancelled: isCancelled(last), result });
    log.info({ ...fields, status }, 'run finished');
    if ('error' in outcome) log.error({ ...fields, err: outcome.error }, 'run failed');
  }

  /** Returns the run's record after an attempt. It is either final, or queued for the next attempt. */
  async #nextRecord(job: PublishJob, endRecord: RunRecord): Promise<RunRecord> {
    const { clock, retries } = this.#options;
    if (endRecord.status !== 'failed') return endRecord;
    const next = retryOrFail(endRecord, clock.now(), retries(job.pipelineId));
    if (next === endRecord) return endRecord;
    const newer = await this.#findNewer(job);
    return newer === undefined ? next : supersededRun(endRecord, newer, clock.now());
  }

  #findNewer(job: PublishJob): Promise<string | undefined> {
    const { store, retries } = this.#options;
    return this.#untilAvailable(() => store.claims.findNewer(job, retries(job.pipelineId)));
  }

  /** Schedules the run's next attempt. Returns false if it was cancelled or now belongs to another worker. */
  async #postpone(ticket: Ticket, next: RunRecord): Promise<boolean> {
    const { store, clock, retries } = this.#options;
    const blocks = retries(next.pipeline_id).whileRetrying === 'wait';
    const wait = { pauseMs: retryDelayMs(next, clock.now()), blocks };
    const outcome = await this.#untilAvailable(() => store.claims.retry(ticket.token, next, wait));
    if (outcome === 'ok') await this.#untilAvailable(() => ticket.postpone(wait));
    return outcome === 'ok';
  }

  /** Records the end of a run and ends its ticket. Returns false if another worker has claimed the run. */
  async #end(ticket: Ticket, job: PublishJob, last: RunRecord): Promise<boolean> {
    const record = { ...last, rerunnable: isRerunnable(job, last) };
    const keeps = isBundleRetained(job, record);
    if (!(await this.#recordEnd(ticket, record, keeps ? stagedBytes(job) : null))) {
      const fields = { run_id: job.runId };
      this.#options.log.warn(fields, 'another worker has taken this run over; its outcome here is dropped');
      return false;
    }
    await this.#untilAvailable(() => ticket.end(record));
    if (!keeps) await this.#options.discard(job);
    return true;
  }

  async #recordEnd({ token }: Ticket, record: RunRecord, bytes: number | null): Promise<boolean> {
    const { store, retentionMs } = this.#options;
    const end = { retentionMs, bytes };
    if (!(await this.#untilAvailable(() => store.claims.finish(token, record, end)))) return false;
    this.#ended.set(record.run_id, { record, bytes });
    for (const oldest of this.#ended.keys()) if (this.#ended.size > maxEnded) this.#ended.delete(oldest);
    return true;
  }

  /**
   * Waits until all events of this attempt have been stored. If this worker dies before it records the
   * outcome, the next worker sends any missing events. Once the outcome is recorded, no other worker would.
   */
  async #keepEvents(): Promise<void> {
    let release: () => void = () => undefined;
    const abandoned = new Promise<never>((_resolve, reject) => {
      release = onAbort(this.#abandoned.signal, () =>
        reject(new WaybillError('queue_unavailable', 'this process ends before redis is back')),
      );
    });
    await Promise.race([this.#options.flushed(), abandoned]).finally(release);
  }

  #untilAvailable<T>(work: () => Promise<T>): Promise<T> {
    return this.#options.link.untilAvailable(this.#abandoned.signal, work);
  }
}

function hasFailed(outcome: AttemptOutcome): boolean {
  return 'error' in outcome || !allSucceeded(outcome.result.run.pipelines);
}

/** Returns a run's record after an attempt. */
function endedRun(record: RunRecord, outcome: AttemptOutcome, isCancelling: boolean, now: Date): RunRecord {
  if (isCancelling) return cancelledRun(record, 'result' in outcome ? outcome.result.run : null, now);
  return 'result' in outcome
    ? finishedRun(record, outcome.result.run, now)
    : failedRun(record, errorRecord(asWaybillError(outcome.error)), now);
}
