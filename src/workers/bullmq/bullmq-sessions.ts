import type { Clock } from '../../core/lib/clock.ts';
import { silentLog } from '../../core/lib/log.ts';
import type { EndedSessions } from '../queue/ended-sessions.ts';
import { RedisLink } from './link.ts';
import { keyRoot, type RedisServer } from './redis-client.ts';

export interface BullmqEndedSessionsOptions extends RedisServer {
  clock: Clock;
  prefix: string;
}

/** The latest time a `Date` can hold. */
const lastTime = 8.64e15;
/** The timeout for the first connection to Redis, in milliseconds. */
const withinMs = 3_000;
/** After a failed connection, requests don't wait for Redis for this long, in milliseconds. */
const retryAfterMs = 15_000;

/**
 * Keeps track of sessions that were ended on any host. It doesn't connect until the first request, because
 * most daemons rarely need it.
 */
export function bullmqEndedSessions({ prefix, ...server }: BullmqEndedSessionsOptions): EndedSessions {
  const { clock } = server;
  let link: Promise<RedisLink> | undefined;
  const linked = (): Promise<RedisLink> => {
    if (link !== undefined) return link;
    // Outages are already logged by the queue's own connection.
    link = RedisLink.open({ ...server, withinMs, log: silentLog });
    link.catch(() => clock.timeout(retryAfterMs, () => (link = undefined), { unref: true }));
    return link;
  };
  const ask = async <T>(work: (opened: RedisLink) => Promise<T>): Promise<T> => {
    const opened = await linked();
    return opened.ask(() => work(opened));
  };
  const key = (id: string): string => `${keyRoot(prefix, server)}:ended-session:${id}`;
  const lifeOf = (expiresAt: Date): number => Math.max(1, expiresAt.getTime() - clock.now().getTime());
  return {
    add: async (id, expiresAt) => {
      await ask(({ redis }) => redis.set(key(id), expiresAt.getTime(), 'PX', lifeOf(expiresAt)));
    },
    addOnce: async (id, expiresAt) =>
      (await ask(({ redis }) => redis.set(key(id), expiresAt.getTime(), 'PX', lifeOf(expiresAt), 'NX'))) ===
      'OK',
    among: async (ids) => {
      const found = new Map<string, Date>();
      if (ids.length === 0) return found;
      const ends = await ask(({ redis }) => redis.mget(ids.map(key)));
      ids.forEach((id, index) => {
        const end = ends[index] ?? null;
        // Even if another program overwrote the time, treat the session as ended.
        if (end !== null) found.set(id, new Date(Number.isSafeInteger(Number(end)) ? Number(end) : lastTime));
      });
      return found;
    },
    close: () => void link?.then((opened) => opened.close()).catch(() => undefined),
  };
}
