import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { ProcessStore } from './process-store.ts';

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
