import { hasCode } from '../../core/lib/errors.ts';
import { stagedBytes } from '../queue/bundle-retention.ts';
import type { PublishJob } from '../queue/job.ts';
import { maxEndTimes } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { hasSameTarget, type RetrySettings } from '../queue/run-retry.ts';
import { acceptedRun } from '../queue/run-transitions.ts';
import { type JobSeal, unreadableError } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { optionalRecord } from './run-reads.ts';
import { pairsOf } from './scripts.ts';

export type ClaimResult =
  | ClaimedRun
  /** The job is not authentic, or the record is unreadable. The caller should end the run with this error. */
  | { outcome: 'rejected'; record: RunRecord; error: unknown }
  | NotDueRun
  /**
   * `unknown`: the store has no such run. `paused`: its pipeline is paused. `held`: another worker is running
   * it.
   */
  | { outcome: 'finished' | 'unknown' | 'paused' | 'held' };

export interface ClaimedRun {
  outcome: 'claimed';
  record: RunRecord;
  job: PublishJob;
  /** True if the run was cancelled while no worker was running it. The caller should then end it. */
  isCancelled: boolean;
  /** The number of times that workers have claimed this run, including this time. */
  claimCount: number;
  /** The time at which a worker first claimed the run (RFC 3339), or null if this is the first time. */
  begunAt: string | null;
}

/** The run's next attempt is not due yet. */
interface NotDueRun extends RetryDelay {
  outcome: 'early';
}

/** How long a run waits for its next attempt. */
export interface RetryDelay {
  pauseMs: number;
  /** True if the pipeline's later runs have to wait for this one. */
  blocks: boolean;
}

/** The maximum number of later runs to look at per pipeline. */
const maxNewer = 1_000;

/**
 * Stores the runs that workers have claimed, and those that wait for their next attempt. Every call is a
 * single atomic step in Redis. Calls with an `owner` do nothing if the run belongs to a different one.
 */
export class RunClaims {
  readonly #link: RedisLink;
  readonly #seal: JobSeal;

  constructor(link: RedisLink, seal: JobSeal) {
    this.#link = link;
    this.#seal = seal;
  }

  /** Makes `owner` the owner of a run, if it may start. */
  async claim(run: { runId: string; pipelineId: string }, owner: string, at: Date): Promise<ClaimResult> {
    const { runId, pipelineId } = run;
    const args = { runId, owner, at: at.toISOString(), pipeline: pipelineId };
    const answer = await this.#link.list('runs/take', args);
    const [outcome = 'finished', text = '', job = '', takes, begun = ''] = answer;
    switch (outcome) {
      case 'finished':
      case 'unknown':
      case 'paused':
      case 'held':
        return { outcome };
      case 'early':
        return { outcome, pauseMs: Number(text), blocks: job === '1' };
    }
    const record = optionalRecord(text);
    try {
      const opened = this.#seal.open(job, run);
      if (record === null) throw unreadableError('record');
      return {
        outcome: 'claimed',
        record,
        job: opened,
        isCancelled: outcome === 'cancelled',
        claimCount: Number(takes),
        begunAt: Number.isNaN(Date.parse(begun)) ? null : begun,
      };
    } catch (error) {
      const first = acceptedRun({ runId, pipelineId, staged: null }, at);
      const named = { ...(record ?? first), run_id: runId, pipeline_id: pipelineId };
      return { outcome: 'rejected', record: named, error };
    }
  }

  /** Saves the record of a run in progress. Returns false if `owner` no longer owns the run. */
  async save(owner: string, record: RunRecord): Promise<boolean> {
    return (await this.#link.run('runs/save', ownedArgs(owner, record))) === 1;
  }

  /**
   * Ends a run. `bytes` is the size of the bundle kept for reruns, or null if it is not kept. Returns false
   * if `owner` no longer owns the run.
   */
  async finish(
    owner: string,
    record: RunRecord,
    { retentionMs, bytes }: { retentionMs: number; bytes: number | null },
  ): Promise<boolean> {
    const end = { retentionMs, maxEnds: maxEndTimes, bytes: bytes ?? '' };
    return (await this.#link.run('runs/finish', { ...ownedArgs(owner, record), ...end })) === 1;
  }

  /** Puts a run back in the queue. Returns false if `owner` no longer owns the run. */
  async requeue(owner: string, record: RunRecord): Promise<boolean> {
    return (await this.#link.run('runs/give-back', ownedArgs(owner, record))) === 1;
  }

  /**
   * Renews a worker's hold on a run for `holdMs` milliseconds. Returns false if another worker has claimed
   * the run.
   */
  async renew(runId: string, owner: string, holdMs: number): Promise<boolean> {
    return (await this.#link.run('runs/hold', { runId, owner, holdMs })) === 1;
  }

  /**
   * Saves this record and schedules the run's next attempt. Returns `lost` if `owner` no longer owns the run,
   * and `cancelled` if the run was cancelled and the caller should end it.
   */
  async retry(
    owner: string,
    record: RunRecord,
    { pauseMs, blocks }: RetryDelay,
  ): Promise<'ok' | 'lost' | 'cancelled'> {
    const wait = { pauseMs, blocks: Number(blocks), maxEnds: maxEndTimes };
    const answer = await this.#link.run('runs/retry', { ...ownedArgs(owner, record), ...wait });
    return answer === 1 ? 'ok' : answer === 2 ? 'cancelled' : 'lost';
  }

  /** Returns which of the given runs have been cancelled and should stop. */
  async findCancelled(runIds: readonly string[]): Promise<string[]> {
    return runIds.length === 0 ? [] : this.#link.list('runs/cancelled', {}, runIds);
  }

  /** Returns the pipeline's runs that are waiting for their next attempt. */
  async findRetrying(pipeline: string): Promise<{ record: RunRecord; job: PublishJob }[]> {
    const found = pairsOf(await this.#link.list('runs/retrying', { pipeline }));
    return found.flatMap(([text, sealed]) => {
      const record = optionalRecord(text);
      return record === null ? [] : this.#openIfAuthentic(sealed).map((job) => ({ record, job }));
    });
  }

  /**
   * Returns the id of the newest later run that publishes to the same place, or undefined if there is not
   * one.
   */
  async findNewer(job: PublishJob, settings: RetrySettings): Promise<string | undefined> {
    const found = await this.#link.list('runs/newer', { runId: job.runId, limit: maxNewer });
    const newer = found.flatMap((text) => this.#openIfAuthentic(text));
    return newer.find((other) => hasSameTarget(job, other, settings))?.runId;
  }

  /**
   * Ends a run with this record and keeps its bundle. Returns false if the run is no longer waiting for its
   * next attempt.
   */
  async supersede(job: PublishJob, record: RunRecord, retentionMs: number): Promise<boolean> {
    const bytes = job.staged === null ? '' : stagedBytes(job);
    const args = { runId: job.runId, record: JSON.stringify(record), retentionMs, bytes };
    return (await this.#link.run('runs/supersede', args)) === 1;
  }

  /**
   * Parses a job. Returns an empty list if the job is not authentic. Such a job never replaces another run,
   * and it fails as soon as a worker picks it up.
   */
  #openIfAuthentic(text: string): PublishJob[] {
    try {
      return [this.#seal.open(text)];
    } catch (error) {
      if (hasCode(error, 'job_rejected')) return [];
      throw error;
    }
  }
}

function ownedArgs(owner: string, record: RunRecord): { runId: string; owner: string; record: string } {
  return { runId: record.run_id, owner, record: JSON.stringify(record) };
}
