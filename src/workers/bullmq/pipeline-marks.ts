import type { RedisLink } from './link.ts';

/**
 * Which other Redis have nothing left to do of a pipeline that lives on this one: noted once for all hosts
 * and starts, as nothing of it is accepted there any more.
 */
export interface PipelineMarks {
  /** Throws `queue_unavailable`. */
  of(pipelineId: string): Promise<readonly string[]>;
  /** Names replace those that were noted before. Throws `queue_unavailable`. */
  set(pipelineId: string, names: readonly string[]): Promise<void>;
}

export function pipelineMarks({ ask, redis }: RedisLink, key: string): PipelineMarks {
  return {
    of: async (pipelineId) => {
      const found = await ask(() => redis.hget(key, pipelineId));
      return found?.split(' ') ?? [];
    },
    set: async (pipelineId, names) => {
      await ask(() => redis.hset(key, pipelineId, names.join(' ')));
    },
  };
}
