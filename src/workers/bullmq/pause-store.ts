import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';
import type { Pause } from '../queue.ts';

/** Which pipelines are paused, for all hosts. Each call is one step in Redis. */
export interface PauseStore {
  /** As `JobQueue.pause`; `at` is now. */
  pause(pipelineId: string, reason: string | null, at: Date): Promise<Pause>;
  /** False if it was not paused. */
  resume(pipelineId: string): Promise<boolean>;
  isPaused(pipelineId: string): Promise<boolean>;
  /** As `JobQueue.pauses`. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
}

/** @param key The hash in Redis. */
export function pauseStore({ ask, redis }: RedisLink, run: RunScript, key: string): PauseStore {
  return {
    pause: async (pipeline, reason, at) => {
      const since = at.toISOString();
      return pauseOf((await run('pause', { pipeline, since, reason: JSON.stringify(reason) })) as string);
    },
    resume: async (pipelineId) => (await ask(() => redis.hdel(key, pipelineId))) === 1,
    isPaused: async (pipelineId) => (await ask(() => redis.hexists(key, pipelineId))) === 1,
    pauses: async () => {
      const found = await ask(() => redis.hgetall(key));
      return new Map(Object.entries(found).map(([pipelineId, text]) => [pipelineId, pauseOf(text)]));
    },
  };
}

// Only `pause.lua` writes these values.
const pauseOf = (text: string): Pause => JSON.parse(text) as Pause;
