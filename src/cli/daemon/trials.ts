import type { CoreContext } from '../../core/context.ts';
import { silentLog } from '../../core/lib/log.ts';

/** What has to be free where uploads are staged, in bytes. */
export { leastRoom } from '../../workers/staging/staging-check.ts';

/** Of a server that is up and near, with much to spare. */
const answerWithinMs = 5_000;

/**
 * A Redis of the queue: reached, logged in to, and asked whether it keeps what it is given. Resolves with
 * what was found, in words. Throws as `linkRedis`.
 *
 * @param redisUrlEnv the variable that holds its URL
 */
export async function tryQueue({ clock, secrets }: CoreContext, redisUrlEnv: string): Promise<string> {
  const url = secrets.require(redisUrlEnv, 'server.queue');
  const doubts: string[] = [];
  const log = { ...silentLog, warn: (_: object, message: string) => void doubts.push(message) };
  const { linkRedis } = await import('../../workers/bullmq/link.ts');
  const link = await linkRedis({ url, urlEnv: redisUrlEnv, log, clock, withinMs: answerWithinMs });
  link.close();
  return ['reached, and logged in to', ...doubts].join('; ');
}
