import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { queueCheck, type HealthCheck } from './health-checks.ts';
import { bullmqQueue, type BullmqQueue } from '../bullmq/bullmq-queue.ts';
import { shardedQueue, type ShardedQueue, type ShardedQueueOptions } from '../bullmq/shards/sharded-queue.ts';

/** What a coordinator needs of either. */
export type AnyBullmqQueue = Pick<BullmqQueue, keyof ShardedQueue & keyof BullmqQueue>;

const remedy = 'see that Redis runs, has room and is reached from this host; the log has what it answered';

/**
 * The queue in one Redis, or over several, by the names of their variables; and the check of its health.
 * Throws as `bullmqQueue`.
 */
export async function openBullmq(
  urls: ReadonlyMap<string, string>,
  options: Omit<ShardedQueueOptions, 'redis'> & { prefix: string },
): Promise<{ queue: AnyBullmqQueue; check: HealthCheck }> {
  const { prefix, told } = options;
  const [[urlEnv, url] = ['', ''], ...others] = urls;
  if (others.length === 0) {
    const redis = { url, urlEnv, prefix };
    const queue = await bullmqQueue({ ...options, redis, told: async () => told?.(urlEnv) });
    return { queue, check: queueCheck(queue, { remedy, keeps: () => queue.prove() }) };
  }
  const queue = await shardedQueue({ ...options, redis: { urls, prefix } });
  return { queue, check: severalCheck(queue, urls.size) };
}

/** Fails if no Redis answers; if some do not, those are named, and the pipelines of the others go on. */
function severalCheck(queue: Pick<ShardedQueue, 'away'>, count: number): HealthCheck {
  return {
    name: 'queue',
    silent: 'queue_unavailable',
    remedy,
    prove: async () => {
      await queue.away();
    },
    lacking: async () => {
      const away = await queue.away();
      if (away.length === 0) return null;
      return new WaybillError(
        'queue_unavailable',
        `${away.length} of ${count} Redis ${away.length === 1 ? 'does' : 'do'} not answer (${away.join(', ')}): their pipelines wait, the others go on`,
      );
    },
  };
}

/** By name. Throws `secrets_invalid` if one is missing, or two are the same. */
export function redisUrls(names: readonly string[], secrets: Secrets): Map<string, string> {
  const urls = new Map<string, string>();
  for (const name of names) {
    const url = secrets.require(name, 'server.queue');
    const other = [...urls].find(([, known]) => known === url)?.[0];
    if (other !== undefined)
      throw new WaybillError('secrets_invalid', `${other} and ${name} have the URL of the same Redis`, {
        hint: 'name each Redis once in server.queue.redis_url_envs',
      });
    urls.set(name, url);
  }
  return urls;
}
