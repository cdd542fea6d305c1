import type { Clock } from '../../core/lib/clock.ts';
import { silentLog } from '../../core/lib/log.ts';
import type { RevokedSessions } from '../queue/revoked-sessions.ts';
import { RedisLink } from './link.ts';
import type { RedisServer } from './redis-client.ts';

/** The latest time a `Date` can hold. */
const lastTime = 8.64e15;
/** The timeout for the first connection to Redis, in milliseconds. */
const withinMs = 3_000;
/** After a failed connection, requests do not wait for Redis for this long, in milliseconds. */
const retryAfterMs = 15_000;

/**
 * Keeps track of sessions that were ended on any host. It does not connect until the first request, because
 * most daemons rarely need it.
 */
export function bullmqRevokedSessions(options: RedisServer & { clock: Clock }): RevokedSessions {
  const { clock } = options;
  let opening: Promise<RedisLink> | undefined;
  const linked = (): Promise<RedisLink> => {
    if (opening !== undefined) return opening;
    // Outages are already logged by the queue's own connection.
    opening = RedisLink.open({ ...options, withinMs, log: silentLog });
    opening.catch(() => clock.timeout(retryAfterMs, () => (opening = undefined), { unref: true }));
    return opening;
  };
  const add = async (id: string, expiresAt: Date, onlyNew: boolean): Promise<boolean> => {
    const link = await linked();
    const key = keyOf(link, id);
    const end = expiresAt.getTime();
    const lifeMs = Math.max(1, end - clock.now().getTime());
    const answer = await link.ask(() =>
      onlyNew ? link.redis.set(key, end, 'PX', lifeMs, 'NX') : link.redis.set(key, end, 'PX', lifeMs),
    );
    return answer === 'OK';
  };
  return {
    add: async (id, expiresAt) => {
      await add(id, expiresAt, false);
    },
    addOnce: (id, expiresAt) => add(id, expiresAt, true),
    findRevoked: async (ids) => {
      const found = new Map<string, Date>();
      if (ids.length === 0) return found;
      const link = await linked();
      const ends = await link.ask(() => link.redis.mget(ids.map((id) => keyOf(link, id))));
      ids.forEach((id, index) => {
        const end = ends[index] ?? null;
        // Even if another program overwrote the time, treat the session as ended.
        if (end !== null) found.set(id, new Date(Number.isSafeInteger(Number(end)) ? Number(end) : lastTime));
      });
      return found;
    },
    close: () => void opening?.then((opened) => opened.close()).catch(() => undefined),
  };
}

function keyOf(link: RedisLink, id: string): string {
  return link.key(`ended-session:${id}`);
}
