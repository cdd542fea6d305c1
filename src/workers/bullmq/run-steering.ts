import { hasCode } from '../../core/lib/errors.ts';
import type { PublishJob } from '../queue/job.ts';
import type { KeptBundles, Pause } from '../queue/job-queue.ts';
import { type KeepLimits, stagedBytes, withoutBundle } from '../queue/kept-bundles.ts';
import { maxEndTimes } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { endedJob, type JobSeal } from './job-seal.ts';
import { isObject, jsonOf } from './job-shape.ts';
import type { RedisLink } from './link.ts';
import { optionalRecord, requiredRecord } from './run-reads.ts';
import type { RunScript } from './scripts.ts';

/**
 * Stores which pipelines are paused and which runs are cancelled, for all hosts. Each call is one step in
 * Redis.
 */
export interface SteeringStore {
  /** Implements `JobQueue.pause`. `at` is the current time. */
  pause(pipelineId: string, reason: string | null, at: Date): Promise<Pause>;
  /** Returns false if the pipeline was not paused. */
  resume(pipelineId: string): Promise<boolean>;
  /**
   * Reports whether a run of the pipeline may be taken: it is not paused, and no blocking run is waiting for
   * its next try.
   */
  mayTake(pipelineId: string): Promise<boolean>;
  /** See `JobQueue.pauses`. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
  /**
   * Ends a waiting run with this record. Requests that a running one stop, through a message on `channel` and
   * in `cancelled`. Resolves with null if the run is unknown.
   */
  cancel(record: RunRecord, retentionMs: number): Promise<Cancelled | null>;
  /** Returns the given runs that should stop. */
  cancelled(runIds: readonly string[]): Promise<string[]>;
}

type Cancelled =
  | { outcome: 'forgotten'; record: RunRecord; job: PublishJob }
  | { outcome: 'stopping' | 'finished'; record: RunRecord };

/** @param key The Redis hash of paused pipelines. */
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

/** Parses a pipeline's pause. The pipeline stays paused even if another program has replaced the value. */
function pauseOf(text: string): Pause {
  const value = jsonOf(text);
  if (!isObject(value)) return unreadablePause;
  const { since, reason } = value;
  const isWhole = typeof since === 'string' && (typeof reason === 'string' || reason === null);
  return isWhole ? { since, reason } : unreadablePause;
}

/** Reruns and the bundles kept for them. Each call is one step in Redis. */
export interface RerunStore {
  /**
   * Returns the job that the run was accepted with, without its bundle if that has been removed. Resolves
   * with null if the run is unknown.
   */
  jobOf(runId: string): Promise<PublishJob | null>;
  /** Queues `job`, which repeats `old`. */
  rerun(
    old: PublishJob,
    job: PublishJob,
    record: RunRecord,
    limits: { queueSize: number; maxWaiting: number | null },
  ): Promise<Rerun>;
  /**
   * Returns the jobs of at most `limit` runs whose bundles must be removed. No run can use these bundles
   * after the call.
   */
  overkept(limits: KeepLimits, limit: number): Promise<PublishJob[]>;
  /** See `JobQueue.kept`. */
  kept(): Promise<KeptBundles>;
}

type Rerun =
  | { outcome: 'ok'; position: number }
  | { outcome: 'replay'; record: RunRecord; position: number }
  | { outcome: 'unknown' | 'unfinished' | 'gone' | 'full' | 'pipeline_full' };

/** @param at Returns the Redis key of a name. */
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

/** Runs that are waiting for their next try. Each call is one step in Redis. */
export interface RetryStore {
  /**
   * Makes the run of `owner` wait for its next try, with this record. With `blocks`, later runs of its
   * pipeline wait behind it. Returns `lost` if the run has another owner, and `cancelled` if the run was
   * cancelled and the caller must end it.
   */
  retry(
    owner: string,
    record: RunRecord,
    wait: { pauseMs: number; blocks: boolean },
  ): Promise<'ok' | 'lost' | 'cancelled'>;
  /**
   * Makes the next try due, with this record. Returns `unchanged` if the run is not waiting for one, or null
   * if it is unknown.
   */
  retryNow(
    record: RunRecord,
  ): Promise<{ outcome: 'due' | 'unchanged' | 'finished'; record: RunRecord } | null>;
  /** Returns the pipeline's runs that are waiting for their next try. */
  retrying(pipelineId: string): Promise<{ record: RunRecord; job: PublishJob }[]>;
  /** Returns the jobs of at most `limit` runs of the same pipeline that were accepted later, newest first. */
  newer(runId: string, limit: number): Promise<PublishJob[]>;
  /**
   * Ends a run with this record and keeps its bundle. Returns false if the run is no longer waiting for its
   * next try.
   */
  supersede(job: PublishJob, record: RunRecord, retentionMs: number): Promise<boolean>;
}

export function retryStore(run: RunScript, seal: JobSeal): RetryStore {
  /**
   * Empty if the job is not authentic. Such a job replaces no other run, and fails when a worker takes it.
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
