import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

/** That this process uses a Redis, noted there, so that none with other names joins it. */
export interface Membership {
  /** To be called more often than `lifeMs`. Throws `queue_unavailable`. */
  renew(): Promise<void>;
  /** Never rejects: one that cannot be told ends by itself. */
  leave(): Promise<void>;
}

/** A process that was silent for so long counts as dead, in milliseconds. */
const lifeMs = 10_000;
const pauseMs = 500;

/**
 * Joins the processes of a Redis. Two that divide the pipelines among different Redis would accept runs of
 * one pipeline at two places, and run them at once: waits until those with other names count as dead, and
 * throws `config_invalid` if they live. Of two that come at once, both may be refused.
 *
 * @param names Of all the Redis of this process; none if it is the only one.
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

/** A process, and the names of all Redis that it divides the pipelines among, sorted, with spaces between. */
interface Process {
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

/** What bounds the runs of one process, whichever of its queues they come from. */
export interface RunSlots {
  /** False if all are taken: whoever asked is told once one is free. */
  take(): boolean;
  release(): void;
  /** `onFree` is called whenever a slot is free again; each in its turn comes first. */
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
