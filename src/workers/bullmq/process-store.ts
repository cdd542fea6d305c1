import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

/** A process, and the names of all Redis that it divides the pipelines among, sorted, with spaces between. */
export interface Process {
  process: string;
  names: string;
}

/** The processes that use this Redis. Each call throws `queue_unavailable` if it is away. */
export interface ProcessStore {
  /** Notes that it lives, for `lifeMs`; resolves with the names that others have, as far as they differ. */
  joinProcesses(one: Process & { lifeMs: number }): Promise<string[]>;
  leaveProcesses(one: Process): Promise<void>;
}

export function processStore(
  { ask, redis }: RedisLink,
  run: RunScript,
  at: (name: string) => string,
): ProcessStore {
  return {
    joinProcesses: async (one) => (await run('join', { ...one })) as string[],
    leaveProcesses: async ({ process, names }) => {
      await ask(() => redis.zrem(at('processes'), `${process} ${names}`));
    },
  };
}
