import type { RedisLink } from './link.ts';
import { recordOf, type RunRecord } from '../queue/run-record.ts';
import type { RunScript } from './scripts.ts';
import type { PublishJob } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';

/**
 * Which pipelines are paused and which runs are cancelled, for all hosts. Each call is one step in Redis.
 */
export interface SteeringStore {
  /** As `JobQueue.pause`; `at` is now. */
  pause(pipelineId: string, reason: string | null, at: Date): Promise<Pause>;
  /** False if it was not paused. */
  resume(pipelineId: string): Promise<boolean>;
  /** Whether a run of the pipeline may be taken: it is not paused, and none waits behind a next try. */
  mayTake(pipelineId: string): Promise<boolean>;
  /** As `JobQueue.pauses`. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
  /**
   * Ends a run that waits, with this record, or tells whoever runs it to stop, by a message on `channel` and
   * in `cancelled`; null if it is unknown.
   */
  cancel(record: RunRecord, retentionMs: number): Promise<Cancelled | null>;
  /** Those of the runs that are to be stopped. */
  cancelled(runIds: readonly string[]): Promise<string[]>;
}

export type Cancelled =
  | { outcome: 'forgotten'; record: RunRecord; job: PublishJob }
  | { outcome: 'stopping' | 'finished'; record: RunRecord };

/** @param key The hash of paused pipelines in Redis. */
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
      const record = recordOf(text);
      return outcome === 'forgotten'
        ? { outcome, record, job: JSON.parse(job) as PublishJob }
        : { outcome, record };
    },
    cancelled: async (runIds) =>
      runIds.length === 0 ? [] : ((await run('cancelled', {}, runIds)) as string[]),
  };
}

// Only `pause.lua` writes these values.
const pauseOf = (text: string): Pause => JSON.parse(text) as Pause;
