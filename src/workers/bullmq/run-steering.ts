import { hasCode } from '../../core/lib/errors.ts';
import type { PublishJob } from '../queue/job.ts';
import type { KeptBundles, Pause } from '../queue/job-queue.ts';
import { type KeepLimits, stagedBytes, withoutBundle } from '../queue/kept-bundles.ts';
import { maxEndTimes } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { endedJob, type JobSeal } from './job-seal.ts';
import { jsonOf } from './job-shape.ts';
import type { RedisLink } from './link.ts';
import { isObject } from './record-shape.ts';
import { optionalRecord, requiredRecord } from './run-reads.ts';
import type { RunScript } from './scripts.ts';

/**
 * Stores which pipelines are paused and which runs are cancelled, across all hosts. Every call is a single
 * atomic step in Redis.
 */
export interface SteeringStore {
  /** Implements `JobQueue.pause`. `at` is the current time. */
  pause(pipelineId: string, reason: string | null, at: Date): Promise<Pause>;
  /** Resumes the pipeline. Returns false if it wasn't paused. */
  resume(pipelineId: string): Promise<boolean>;
  /**
   * Reports whether a worker may start one of the pipeline's runs. It may not if the pipeline is paused, if
   * another worker is already running one, or if a blocking run is waiting for its next attempt.
   */
  mayTake(pipelineId: string): Promise<boolean>;
  /** See `JobQueue.pauses`. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
  /**
   * Cancels a run. If it is waiting, it ends with this record right away. If it is running, its worker learns
   * that it should stop from a message on `channel` and from `cancelled`. Resolves with null if the run is
   * unknown.
   */
  cancel(record: RunRecord, retentionMs: number): Promise<Cancelled | null>;
  /** Returns which of the given runs have been cancelled and should stop. */
  cancelled(runIds: readonly string[]): Promise<string[]>;
}

type Cancelled =
  | { outcome: 'forgotten'; record: RunRecord; job: PublishJob }
  | { outcome: 'stopping' | 'finished'; record: RunRecord };

/** @param key The Redis hash that stores the paused pipelines. */
export function steeringStore({ ask, redis }: RedisLink, run: RunScript, key: string): SteeringStore {
  return {
    pause: async (pipeline, reason, at) => {
      const since = at.toISOString();
      return pauseOf((await run('pause', { pipeline, since, reason: JSON.stringify(reason) })) as string);
    },
    resume: async (pipelineId) => (await ask(() => redis.hdel(key, pipelineId))) === 1,
    mayTake: async (pipeline) => (await run('mayTake', { pipeline })) === 1,
    pauses: async () => {
      const found = await ask(() => redis.hgetall(key));
      return new Map(Object.entries(found).map(([pipelineId, text]) => [pipelineId, pauseOf(text)]));
    },
    cancel: async (ended, retentionMs) => {
      const args = { runId: ended.run_id, record: JSON.stringify(ended), retentionMs };
      const [outcome, text = '', job = ''] = (await run('cancel', args)) as [
        Cancelled['outcome']?,
        ...string[],
      ];
      if (outcome === undefined) return null;
      const record = requiredRecord(text);
      if (outcome !== 'forgotten') return { outcome, record };
      const { run_id: runId, pipeline_id: pipelineId } = record;
      return { outcome, record, job: endedJob(job) ?? { runId, pipelineId, staged: null } };
    },
    cancelled: async (runIds) =>
      runIds.length === 0 ? [] : ((await run('cancelled', {}, runIds)) as string[]),
  };
}

const unreadablePause: Pause = {
  since: new Date(0).toISOString(),
  reason: 'another program has overwritten this pause in Redis; resume the pipeline to remove it',
};

/** Parses the details of a pause. If another program overwrote them, the pipeline still counts as paused. */
function pauseOf(text: string): Pause {
  const value = jsonOf(text);
  if (!isObject(value)) return unreadablePause;
  const { since, reason } = value;
  const isWhole = typeof since === 'string' && (typeof reason === 'string' || reason === null);
  return isWhole ? { since, reason } : unreadablePause;
}

/** Stores reruns and the bundles kept for them. Every call is a single atomic step in Redis. */
export interface RerunStore {
  /**
   * Returns the job that the run was accepted with. If its bundle has been removed, the job no longer
   * includes it. Resolves with null if the run is unknown.
   */
  jobOf(runId: string): Promise<PublishJob | null>;
  /** Queues `job` as a rerun of `old`. */
  rerun(
    old: PublishJob,
    job: PublishJob,
    record: RunRecord,
    limits: { queueSize: number; maxWaiting: number | null },
  ): Promise<Rerun>;
  /**
   * Finds bundles that are past the limits and detaches them, so that no run can use them anymore. Returns
   * the jobs of up to `limit` runs, whose bundles the caller then has to delete.
   */
  overkept(limits: KeepLimits, limit: number): Promise<PublishJob[]>;
  /** See `JobQueue.kept`. */
  kept(): Promise<KeptBundles>;
}

type Rerun =
  | { outcome: 'ok'; position: number }
  | { outcome: 'replay'; record: RunRecord; position: number }
  | { outcome: 'unknown' | 'unfinished' | 'gone' | 'full' | 'pipeline_full' };

/** @param at Maps a name used in the scripts to its Redis key. */
export function rerunStore(
  { ask, redis }: RedisLink,
  run: RunScript,
  at: (key: string) => string,
  seal: JobSeal,
): RerunStore {
  return {
    jobOf: async (runId) => {
      const job = await ask(() => redis.hget(at(`run:${runId}`), 'job'));
      return job === null ? null : seal.open(job, { runId });
    },
    rerun: async (old, job, record, { queueSize, maxWaiting }) => {
      const answer = await run('rerun', {
        runId: old.runId,
        newRunId: job.runId,
        record: JSON.stringify(record),
        job: seal.seal(job),
        oldJob: seal.seal(withoutBundle(old)),
        hasBundle: Number(old.staged !== null),
        queueSize,
        maxWaiting: maxWaiting ?? '',
      });
      const [outcome = 'unknown', first = '', second = ''] = answer as [Rerun['outcome']?, ...string[]];
      if (outcome === 'ok') return { outcome, position: Number(first) };
      if (outcome !== 'replay') return { outcome };
      return { outcome, record: requiredRecord(first), position: Number(second) };
    },
    overkept: async ({ keepMs, maxBundles, maxBytes }, limit) => {
      const jobs = (await run('overkept', { keepMs, maxBundles, maxBytes, limit })) as string[];
      return jobs.flatMap((job) => endedJob(job) ?? []);
    },
    kept: async () => {
      const [bundles, bytes] = await Promise.all([
        ask(() => redis.zcard(at('kept'))),
        ask(() => redis.get(at('kept-bytes'))),
      ]);
      return { bundles, bytes: Number(bytes ?? 0) };
    },
  };
}

/** Stores the runs that are waiting for their next attempt. Every call is a single atomic step in Redis. */
export interface RetryStore {
  /**
   * Saves this record and schedules the run's next attempt. With `blocks`, the pipeline's later runs wait
   * behind it. Returns `lost` if `owner` no longer owns the run, and `cancelled` if the run was cancelled and
   * the caller should end it.
   */
  retry(
    owner: string,
    record: RunRecord,
    wait: { pauseMs: number; blocks: boolean },
  ): Promise<'ok' | 'lost' | 'cancelled'>;
  /**
   * Saves this record and makes the next attempt due immediately. Returns `unchanged` if the run isn't
   * waiting for an attempt, or null if it's unknown.
   */
  retryNow(
    record: RunRecord,
  ): Promise<{ outcome: 'due' | 'unchanged' | 'finished'; record: RunRecord } | null>;
  /** Returns the pipeline's runs that are waiting for their next attempt. */
  retrying(pipelineId: string): Promise<{ record: RunRecord; job: PublishJob }[]>;
  /** Returns up to `limit` jobs that the same pipeline accepted after this run, newest first. */
  newer(runId: string, limit: number): Promise<PublishJob[]>;
  /**
   * Ends a run with this record and keeps its bundle. Returns false if the run is no longer waiting for its
   * next attempt.
   */
  supersede(job: PublishJob, record: RunRecord, retentionMs: number): Promise<boolean>;
}

export function retryStore(run: RunScript, seal: JobSeal): RetryStore {
  /**
   * Parses a job. Returns an empty list if the job isn't authentic. Such a job never replaces another run,
   * and it fails as soon as a worker picks it up.
   */
  const authentic = (text: string): PublishJob[] => {
    try {
      return [seal.open(text)];
    } catch (error) {
      if (hasCode(error, 'job_rejected')) return [];
      throw error;
    }
  };
  return {
    retry: async (owner, record, { pauseMs, blocks }) => {
      const text = JSON.stringify(record);
      const args = {
        runId: record.run_id,
        owner,
        record: text,
        pauseMs,
        maxEnds: maxEndTimes,
        blocks: Number(blocks),
      };
      const answer = await run('retry', args);
      return answer === 1 ? 'ok' : answer === 2 ? 'cancelled' : 'lost';
    },
    retryNow: async (due) => {
      const args = { runId: due.run_id, record: JSON.stringify(due) };
      const [outcome, text = ''] = (await run('retryNow', args)) as [
        ('due' | 'unchanged' | 'finished')?,
        string?,
      ];
      return outcome === undefined ? null : { outcome, record: requiredRecord(text) };
    },
    retrying: async (pipeline) => {
      const found = (await run('retrying', { pipeline })) as string[];
      return found.flatMap((text, index) => {
        const record = index % 2 === 0 ? optionalRecord(text) : null;
        return record === null ? [] : authentic(found[index + 1] ?? '').map((job) => ({ record, job }));
      });
    },
    newer: async (runId, limit) => ((await run('newer', { runId, limit })) as string[]).flatMap(authentic),
    supersede: async (job, record, retentionMs) => {
      const bytes = job.staged === null ? '' : stagedBytes(job);
      const args = { runId: job.runId, record: JSON.stringify(record), retentionMs, bytes };
      return (await run('supersede', args)) === 1;
    },
  };
}
