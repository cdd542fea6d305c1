import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

/** The accepted runs that may not be in BullMQ's queue yet, per pipeline. */
export interface OutboxStore {
  /**
   * Returns the ids of the runs in the order in which they were accepted. Ends before the first run that
   * still has to be confirmed, unless it is `confirmed`.
   */
  outbox(pipelineId: string, confirmed?: string): Promise<string[]>;
  /** Returns the pipelines that have runs in their outbox. */
  outboxes(): Promise<string[]>;
  handedOver(pipelineId: string, runIds: readonly string[]): Promise<void>;
  /** Puts the unfinished runs of these pipelines back into their outboxes. */
  reopen(pipelineIds: readonly string[]): Promise<void>;
}

/** @param key Maps a name used in the scripts to its Redis key. */
export function outboxStore(
  { ask, redis }: RedisLink,
  run: RunScript,
  key: (name: string) => string,
): OutboxStore {
  return {
    outbox: async (pipeline, confirmed = '') => (await run('outbox', { pipeline, confirmed })) as string[],
    outboxes: () => ask(() => redis.smembers(key('outboxes'))),
    handedOver: async (pipeline, runIds) => {
      await run('handedOver', { pipeline }, runIds);
    },
    reopen: async (pipelineIds) => {
      await run('reopen', {}, pipelineIds);
    },
  };
}
