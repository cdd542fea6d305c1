import type { Config } from '../core/config/config.ts';
import type { Secrets } from '../core/secrets.ts';
import { WaybillError } from '../core/errors.ts';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { createCoordinator, prepareStaging } from './memory/coordinator.ts';

/**
 * The coordinator that the configuration asks for, with staging ready for uploads. BullMQ is loaded only if
 * it is configured. Throws `config_invalid` if staging cannot be used, and with BullMQ what
 * `createBullmqCoordinator` throws.
 */
export async function openCoordinator(
  options: CoordinatorOptions & { secrets: Secrets },
): Promise<Coordinator> {
  const { config, log } = options;
  if (config.server.queue.driver === 'bullmq') {
    const { createBullmqCoordinator } = await import('./bullmq/coordinator.ts');
    return createBullmqCoordinator(options);
  }
  const { swept } = await prepareStaging(config.server.staging.directory);
  if (swept.length > 0)
    log.info({ directories: swept.length }, 'removed uploads that an earlier process had staged');
  return createCoordinator(options);
}

/**
 * Throws `config_invalid` if the queue is in the memory of one process, which no other process can reach.
 *
 * @param what What the user asked for, as the beginning of a sentence.
 */
export function requireBullmq(config: Config, what: string): void {
  if (config.server.queue.driver === 'bullmq') return;
  throw new WaybillError(
    'config_invalid',
    `${what} needs a queue that several processes share, and server.queue.driver is "${config.server.queue.driver}"`,
    { hint: 'set server.queue: {driver: bullmq, redis_url_env: …}, or run `waybill serve`, which does both' },
  );
}
