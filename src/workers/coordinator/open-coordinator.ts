import type { Config } from '../../core/config/config.ts';
import { requireQueuePackage } from '../../core/config/required-packages.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { QueueStore } from '../embedded/queue-store.ts';
import { needsBundle } from '../queue/bundle-retention.ts';
import { inProcessRevokedSessions, type RevokedSessions } from '../queue/revoked-sessions.ts';
import { eventsOfOneProcess, type EventStore } from '../queue/run-events.ts';
import { Coordinator, type CoordinatorOptions } from './coordinator.ts';
import { prepareStaging, singleHost, stagedDirectoriesOf } from './single-host.ts';

/**
 * Opens the coordinator that the configuration asks for, ready to receive uploads. Get `store` from
 * `openConfiguredStore`. BullMQ is only loaded if it is configured. Throws `config_invalid` if the staging
 * directory cannot be used, and with BullMQ also the errors of `multiHost`.
 */
export async function openCoordinator(
  options: CoordinatorOptions & { secrets: Secrets; store?: QueueStore | null },
): Promise<Coordinator> {
  const { config, log, store = null } = options;
  if (config.server.queue.driver === 'bullmq') {
    const { multiHost } = await import('./multi-host.ts');
    return Coordinator.open(options, (common) => multiHost(options, common));
  }
  const { directory } = config.server.staging;
  const storedRuns = store?.journal.runs ?? [];
  const directoriesInUse = stagedDirectoriesOf(
    storedRuns.filter(needsBundle).map(({ job }) => job),
    directory,
  );
  const { swept } = await prepareStaging(directory, directoriesInUse);
  if (swept.length > 0)
    log.info({ directories: swept.length }, 'removed uploads that an earlier process had staged');
  const waiting = storedRuns.filter(({ record }) => record.finished_at === null).length;
  if (storedRuns.length > 0)
    log.info({ runs: storedRuns.length, waiting }, 'resumed the runs of an earlier process');
  return Coordinator.open(options, (common) => singleHost(options, common, store));
}

/**
 * Opens the queue store if the queue is `embedded`, and returns null otherwise. LMDB is only loaded if it is
 * needed. The caller must close the store last, after the coordinator and the notifiers. Throws
 * `package_missing`, and the same errors as `openQueueStore`.
 */
export async function openConfiguredStore({
  config,
  clock,
  log,
  onDropped,
}: Pick<CoordinatorOptions, 'config' | 'clock' | 'log'> & OnDropped): Promise<QueueStore | null> {
  const { queue, staging } = config.server;
  if (queue.driver !== 'embedded') return null;
  requireQueuePackage();
  const { openQueueStore } = await import('../embedded/queue-store.ts').catch((error: unknown) => {
    throw withoutLmdb(error);
  });
  return openQueueStore({ directory: queue.directory, staging: staging.directory, clock, log, onDropped });
}

/** Explains that LMDB is native code, which is not available on every platform that Node.js supports. */
function withoutLmdb(error: unknown): unknown {
  const { message } = error instanceof Error ? error : { message: '' };
  const [, platform, arch] = /No native build was found for platform=(\S+) arch=(\S+)/.exec(message) ?? [];
  if (platform === undefined) return error;
  return new WaybillError('queue_unusable', `there is no embedded queue on ${platform} ${arch}`, {
    cause: error,
    hint: 'install waybill with optional packages and for the platform that it runs on, or set server.queue to {driver: memory} or {driver: bullmq, …}',
  });
}

interface OnDropped {
  /** Called after a notifier's oldest undelivered events were deleted because there were too many. */
  onDropped: (notifierId: string, count: number) => void;
}

/**
 * Opens the storage for events that are pending or could not be delivered. Close it after the notifiers. With
 * BullMQ, throws an error if Redis cannot be reached.
 */
export async function openEvents({
  config,
  secrets,
  clock,
  log,
  onDropped,
  store = null,
}: Pick<CoordinatorOptions, 'config' | 'clock' | 'log'> & {
  secrets: Secrets;
  store?: QueueStore | null;
} & OnDropped): Promise<EventStore> {
  const { queue } = config.server;
  if (queue.driver !== 'bullmq') return eventsOfOneProcess(store, onDropped);
  const { bullmqEvents } = await import('../bullmq/bullmq-events.ts');
  const { redisServer } = await import('../bullmq/redis-client.ts');
  const { workerTimeoutMs: hostLifeMs } = queue;
  return bullmqEvents({ ...redisServer(queue, secrets), clock, log, hostLifeMs, onDropped });
}

/**
 * Opens the list of console sessions that have been ended. It is stored together with the queue, and both
 * must be closed together.
 */
export async function openRevokedSessions({
  config,
  secrets,
  clock,
  store,
}: Pick<CoordinatorOptions, 'config' | 'clock'> & {
  secrets: Secrets;
  store: QueueStore | null;
}): Promise<RevokedSessions> {
  const { queue } = config.server;
  if (queue.driver !== 'bullmq') return store?.revokedSessions ?? inProcessRevokedSessions({ clock });
  const { bullmqRevokedSessions } = await import('../bullmq/bullmq-sessions.ts');
  const { redisServer } = await import('../bullmq/redis-client.ts');
  return bullmqRevokedSessions({ ...redisServer(queue, secrets), clock });
}

/**
 * Throws a `config_invalid` error unless the queue is in Redis. Any other queue belongs to a single process,
 * so no other process can reach it.
 *
 * @param what What the user wanted to do. The error message starts with this text.
 */
export function requireBullmq(config: Config, what: string): void {
  if (config.server.queue.driver === 'bullmq') return;
  throw new WaybillError(
    'config_invalid',
    `${what} needs a queue that several processes share, and server.queue.driver is "${config.server.queue.driver}"`,
    { hint: 'set server.queue: {driver: bullmq, redis_url_env: …}, or run waybill serve, which does both' },
  );
}
