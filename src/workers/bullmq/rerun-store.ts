import { endedJob, type JobSeal } from './job-seal.ts';
import type { RedisLink } from './link.ts';
import { recordOf, type RunRecord } from '../queue/run-record.ts';
import type { RunScript } from './scripts.ts';
import type { PublishJob } from '../queue/job.ts';
import { withoutBundle, type KeepLimits } from '../queue/kept-bundles.ts';
import type { KeptBundles } from '../queue/job-queue.ts';

/** Runs that repeat others, and the bundles that are kept for them. Each call is one step in Redis. */
export interface RerunStore {
  /** The job that the run was accepted with, without its bundle if that is gone; null if it is unknown. */
  jobOf(runId: string): Promise<PublishJob | null>;
  /** Queues `job`, which repeats the run of `old`. */
  rerun(
    old: PublishJob,
    job: PublishJob,
    record: RunRecord,
    limits: { queueSize: number; maxWaiting: number | null },
  ): Promise<Rerun>;
  /** The jobs of at most `most` runs whose bundles are to be removed, which no run can use from now on. */
  overkept(limits: KeepLimits, most: number): Promise<PublishJob[]>;
  /** As `JobQueue.kept`. */
  kept(): Promise<KeptBundles>;
}

export type Rerun =
  | { outcome: 'ok'; position: number }
  | { outcome: 'replay'; record: RunRecord; position: number }
  | { outcome: 'unknown' | 'unfinished' | 'gone' | 'full' | 'pipeline_full' };

/** @param at A key in Redis. */
export function rerunStore(
  { ask, redis }: RedisLink,
  run: RunScript,
  at: (key: string) => string,
  seal: JobSeal,
): RerunStore {
  return {
    jobOf: async (runId) => {
      const job = await ask(() => redis.hget(at(`run:${runId}`), 'job'));
      return job === null ? null : seal.open(job, runId);
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
      return { outcome, record: recordOf(first), position: Number(second) };
    },
    overkept: async ({ keepMs, mostBundles, mostBytes }, most) => {
      const jobs = (await run('overkept', { keepMs, mostBundles, mostBytes, most })) as string[];
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
