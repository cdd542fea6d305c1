import type { Job } from 'bullmq';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError, errorRecord } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Outcome } from './attempt.ts';
import type { PipelineQueues, Ticket } from './pipelines.ts';
import type { RunStore } from './run-store.ts';
import { newerOf } from './superseding.ts';
import type { PublishJob } from '../queue/job.ts';
import { isKept, isRerunnable, stagedBytes } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { afterFailure, pauseOf, supersededRun, type RetriesOf } from '../queue/run-retry.ts';
import { cancelledRun, failedRun, finishedRun } from '../queue/run-transitions.ts';

/** Runs that ended here and that are remembered, so that none is run twice. */
const maxEnded = 1_000;

export interface RunOutcomesOptions {
  store: RunStore;
  pipelines: PipelineQueues;
  clock: Clock;
  log: Log;
  retries: RetriesOf;
  retentionMs: number;
  /** Called when the job needs what is staged no more, while its record stays. */
  discard: (job: PublishJob) => Promise<void>;
  /** Repeats a call until Redis answers. */
  insist: <T>(work: () => Promise<T>) => Promise<T>;
}

/** What becomes of a run after a try, in the store and in BullMQ. */
export interface RunOutcomes {
  /** The record of a run after its try: final, or queued for the next one. */
  afterTry(job: PublishJob, ended: RunRecord): Promise<RunRecord>;
  /**
   * Lets the run wait for its next try. False if it is not to wait: it was cancelled, or has another owner.
   */
  postpone(job: Job<Ticket>, token: string, next: RunRecord): Promise<boolean>;
  /**
   * Ends a run again if it has ended here before: only a changed Redis, or one that lost its last writes,
   * hands it out a second time. False if it has not.
   */
  endAgain(job: Job<Ticket>, token: string, runId: string): Promise<boolean>;
  /** Ends a run whose job is not authentic, without running it. */
  refuse(job: Job<Ticket>, token: string, record: RunRecord, rejection: unknown): Promise<void>;
  /** Records the end of a run and ends its job; false if another worker has taken the run over. */
  end(job: Job<Ticket>, token: string, of: PublishJob, last: RunRecord): Promise<boolean>;
}

export function runOutcomes(options: RunOutcomesOptions): RunOutcomes {
  const { store, pipelines, clock, log, retries, insist, retentionMs } = options;
  const ended = new Map<string, { record: RunRecord; bytes: number | null }>();
  const finish = async (token: string, record: RunRecord, bytes: number | null): Promise<boolean> => {
    if (!(await insist(() => store.finish(token, record, { retentionMs, bytes })))) return false;
    ended.set(record.run_id, { record, bytes });
    for (const oldest of ended.keys()) if (ended.size > maxEnded) ended.delete(oldest);
    return true;
  };
  return {
    async endAgain(job: Job<Ticket>, token: string, runId: string): Promise<boolean> {
      const known = ended.get(runId);
      if (known === undefined) return false;
      log.error({ run_id: runId }, 'a run that has ended was in the queue again; it is not repeated');
      await finish(token, known.record, known.bytes);
      await insist(() => pipelines.end(job, token, known.record));
      return true;
    },
    async afterTry(job: PublishJob, ended: RunRecord): Promise<RunRecord> {
      if (ended.status !== 'failed') return ended;
      const next = afterFailure(ended, clock.now(), retries(job.pipelineId));
      if (next === ended) return ended;
      const newer = await insist(() => newerOf(store, job, retries));
      return newer === undefined ? next : supersededRun(ended, newer, clock.now());
    },
    async postpone(job: Job<Ticket>, token: string, next: RunRecord): Promise<boolean> {
      const blocks = retries(next.pipeline_id).whileRetrying === 'wait';
      const wait = { pauseMs: pauseOf(next, clock.now()), blocks };
      const outcome = await insist(() => store.retry(token, next, wait));
      if (outcome === 'ok') await insist(() => pipelines.postpone(job, token, wait));
      return outcome === 'ok';
    },
    async refuse(job: Job<Ticket>, token: string, record: RunRecord, rejection: unknown): Promise<void> {
      log.error({ run_id: record.run_id, pipeline_id: record.pipeline_id, err: rejection }, 'run refused');
      const failed = failedRun(record, errorRecord(rejection), clock.now());
      await finish(token, { ...failed, rerunnable: false }, null);
      await insist(() => pipelines.end(job, token, failed));
    },
    async end(job: Job<Ticket>, token: string, of: PublishJob, last: RunRecord): Promise<boolean> {
      const record = { ...last, rerunnable: isRerunnable(of, last) };
      const keeps = isKept(of, record);
      const bytes = keeps ? stagedBytes(of) : null;
      if (!(await finish(token, record, bytes))) {
        const { runId } = of;
        log.warn({ run_id: runId }, 'another worker has taken this run over; its outcome here is dropped');
        return false;
      }
      await insist(() => pipelines.end(job, token, record));
      if (!keeps) await options.discard(of);
      return true;
    },
  };
}

/** The record of a run whose try has ended. Pure. */
export function recordAfter(
  record: RunRecord,
  outcome: Outcome,
  isCancelling: boolean,
  now: Date,
): RunRecord {
  if (isCancelling) return cancelledRun(record, 'result' in outcome ? outcome.result.run : null, now);
  return 'result' in outcome
    ? finishedRun(record, outcome.result.run, now)
    : failedRun(record, errorRecord(asWaybillError(outcome.error)), now);
}
