import type { Clock } from '../../core/lib/clock.ts';
import { silentLog } from '../../core/lib/log.ts';
import type { EndedSessions } from '../queue/ended-sessions.ts';
import { linkRedis, type RedisLink } from './link.ts';

export interface BullmqEndedSessionsOptions {
  clock: Clock;
  /** Per Redis: the variable that holds the URL, and the URL, which contains the password. */
  servers: readonly { url: string; urlEnv: string }[];
  prefix: string;
}

/** How long a request waits for the first connection to a Redis, in milliseconds. */
const withinMs = 3_000;
/** After a failed connection, how long requests do not wait for that Redis, in milliseconds. */
const retryAfterMs = 15_000;

/**
 * The ended sessions of all hosts. Each Redis stores all of them, so any one of them is enough to detect a
 * logout or a used ID token. Connects on the first request, because most daemons rarely need it.
 */
export function bullmqEndedSessions({ clock, servers, prefix }: BullmqEndedSessionsOptions): EndedSessions {
  const links = new Map<string, Promise<RedisLink>>();
  const linkOf = (server: { url: string; urlEnv: string }): Promise<RedisLink> => {
    const known = links.get(server.urlEnv);
    if (known !== undefined) return known;
    // The connection of the queue logs outages.
    const link = linkRedis({ ...server, clock, withinMs, log: silentLog });
    links.set(server.urlEnv, link);
    const forget = (): boolean => links.delete(server.urlEnv);
    link.catch(() => clock.timeout(retryAfterMs, forget, { unref: true }));
    return link;
  };
  const key = (id: string): string => `${prefix}:ended-session:${id}`;
  /** The answers of the reachable Redis servers. Throws if none answers. */
  const askAll = async <T>(work: (link: RedisLink) => Promise<T>): Promise<T[]> => {
    const settled = await Promise.allSettled(
      servers.map(async (server) => {
        const link = await linkOf(server);
        return link.ask(() => work(link));
      }),
    );
    const answers = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const [first] = settled;
    if (answers.length === 0 && first?.status === 'rejected') throw first.reason;
    return answers;
  };
  return {
    add: async (id, expiresAt) => {
      const lifeMs = Math.max(1, expiresAt.getTime() - clock.now().getTime());
      await askAll(({ redis }) => redis.set(key(id), expiresAt.getTime(), 'PX', lifeMs));
    },
    addOnce: async (id, expiresAt) => {
      const lifeMs = Math.max(1, expiresAt.getTime() - clock.now().getTime());
      const answers = await askAll(({ redis }) =>
        redis.set(key(id), expiresAt.getTime(), 'PX', lifeMs, 'NX'),
      );
      return answers.every((answer) => answer === 'OK');
    },
    among: async (ids) => {
      const found = new Map<string, Date>();
      if (ids.length === 0) return found;
      const answers = await askAll(({ redis }) => redis.mget(ids.map(key)));
      ids.forEach((id, index) => {
        const ends = answers.flatMap((answer) => answer[index] ?? []).map(Number);
        if (ends.length > 0) found.set(id, new Date(Math.max(...ends)));
      });
      return found;
    },
    close: () => {
      for (const link of links.values()) void link.then((opened) => opened.close()).catch(() => undefined);
    },
  };
}
