import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

/** Registration of this process in a Redis. It keeps processes with other Redis names from joining. */
export interface Membership {
  /**
   * Extends the registration. The caller calls this more often than every `lifeMs`. Throws
   * `queue_unavailable`.
   */
  renew(): Promise<void>;
  /** Never rejects: an unremoved registration expires. */
  leave(): Promise<void>;
}

/** A process that is silent for this long counts as dead, in milliseconds. */
const lifeMs = 10_000;
const pauseMs = 500;

/**
 * Registers this process in a Redis. Two processes that divide the pipelines among different Redis servers
 * would accept and run one pipeline in two places. Therefore this waits until processes with other names
 * count as dead, and throws `config_invalid` if they live. If two such processes start at the same time, both
 * may be refused.
 *
 * @param names Names of all Redis servers of this process; empty if it uses only one.
 */
export async function joinProcesses(
  store: ProcessStore,
  clock: Clock,
  names: readonly string[],
): Promise<Membership> {
  const self = { process: randomUUID(), names: names.toSorted().join(' ') };
  const call = (): Promise<string[]> => store.joinProcesses({ ...self, lifeMs });
  const leave = (): Promise<void> => store.leaveProcesses(self).catch(() => undefined);
  const begun = clock.monotonic();
  for (;;) {
    const [other] = await call();
    if (other === undefined) break;
    if (clock.monotonic() - begun > lifeMs + pauseMs) {
      await leave();
      throw differing(names.toSorted(), other === '' ? [] : other.split(' '));
    }
    await clock.sleep(pauseMs);
  }
  let renewed = clock.monotonic();
  return {
    renew: async () => {
      if (clock.monotonic() - renewed < lifeMs / 4) return;
      renewed = clock.monotonic();
      await call();
    },
    leave,
  };
}

function differing(own: readonly string[], others: readonly string[]): WaybillError {
  const said = (names: readonly string[]): string =>
    names.length === 0 ? 'this Redis alone (redis_url_env)' : names.join(', ');
  return new WaybillError(
    'config_invalid',
    `server.queue.redis_url_envs: another process that runs divides the pipelines among ${said(others)}, and this one among ${said(own)}`,
    { hint: 'give all processes the same names: stop all of them before you start one with others' },
  );
}

/**
 * A process, and the sorted names of the Redis servers that it divides the pipelines among, separated by
 * spaces.
 */
interface Process {
  process: string;
  names: string;
}

/** The processes that use this Redis. Each call throws `queue_unavailable` while Redis is unreachable. */
export interface ProcessStore {
  /** Registers the process for `lifeMs`. Resolves with the differing names of other live processes. */
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

/** Limits the concurrent runs of one process, over all of its queues. */
export interface RunSlots {
  /** False if no slot is free; `onFree` callbacks run once one is. */
  take(): boolean;
  release(): void;
  /** Calls `onFree` whenever a slot is released. The callbacks take turns at being first. */
  onFree(onFree: () => void): void;
}

export function runSlots(most: number): RunSlots {
  const listeners: (() => void)[] = [];
  let taken = 0;
  return {
    take: () => {
      if (taken >= most) return false;
      taken += 1;
      return true;
    },
    release: () => {
      taken -= 1;
      const [first] = listeners;
      for (const listener of [...listeners]) listener();
      if (first !== undefined) listeners.push(...listeners.splice(0, 1));
    },
    onFree: (onFree) => void listeners.push(onFree),
  };
}
