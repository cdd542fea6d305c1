import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { BullmqConfig } from '../../core/config/config.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';

/** A Redis server and how to find its primary. */
export interface RedisServer {
  /** Contains the password, so never log it. */
  url: string;
  /** Name of the environment variable that holds the URL, for messages. */
  urlEnv: string;
  /** Sentinels that report the primary. The URL then supplies the user, password, database and TLS. */
  sentinels?: BullmqConfig['redisSentinels'];
  /** True if the URL points to any node of a Cluster. */
  isCluster?: boolean;
}

/** A client for a single Redis server or a Cluster. */
export type RedisClient = Redis | Cluster;

/** Throws `secrets_invalid` if the URL is missing. */
export function redisServer(
  { redisUrlEnv: urlEnv, redisSentinels: sentinels, redisCluster: isCluster }: BullmqConfig,
  secrets: Pick<Secrets, 'require'>,
): RedisServer {
  return { url: secrets.require(urlEnv, 'server.queue'), urlEnv, sentinels, isCluster };
}

/**
 * Returns the prefix of all keys. In a Cluster, keys with the same hash tag `{…}` are on the same node, and a
 * script can use only keys on one node.
 */
export function keyRoot(prefix: string, { isCluster = false }: Pick<RedisServer, 'isCluster'>): string {
  return isCluster ? `{${untagged(prefix)}}` : prefix;
}

/** Returns the prefix of BullMQ's keys for a pipeline. In a Cluster, each pipeline has its own hash tag. */
export function ticketRoot(
  prefix: string,
  pipelineId: string,
  { isCluster = false }: Pick<RedisServer, 'isCluster'>,
): string {
  return isCluster ? `{${untagged(prefix)}:${pipelineId}}` : `${prefix}:queue`;
}

const untagged = (prefix: string): string => prefix.replaceAll(/[{}]/g, '');

const commandTimeoutMs = 3_000;
const maxPauseMs = 1_000;

/** Returns an unconnected client. Throws `secrets_invalid` if the URL is malformed. */
export function redisClient(server: RedisServer): RedisClient {
  checkUrl(server);
  const { url, sentinels = null, isCluster = false } = server;
  const retryStrategy = (times: number): number => Math.min(50 * 2 ** Math.min(times, 10), maxPauseMs);
  const common = {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
    // `autoResubscribe` fails silently on quick reconnects. Subscribe on each `ready` event instead.
    autoResubscribe: false,
    connectTimeout: commandTimeoutMs,
    commandTimeout: commandTimeoutMs,
    // After a failover, the old primary rejects writes.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  } satisfies RedisOptions;
  const own = { lazyConnect: true, enableOfflineQueue: false } as const;
  if (isCluster) return clusterClient(url, { ...own, retryStrategy, common });
  if (sentinels === null) return new Redis(url, { ...common, ...own, retryStrategy });
  const tls = url.startsWith('rediss:') ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
  return new Redis(url, {
    ...common,
    ...own,
    ...tls,
    retryStrategy,
    sentinels: [...sentinels.hosts],
    name: sentinels.master,
    failoverDetector: true,
    sentinelRetryStrategy: retryStrategy,
  });
}

function clusterClient(
  url: string,
  {
    common,
    retryStrategy,
    ...own
  }: {
    lazyConnect: boolean;
    enableOfflineQueue: boolean;
    common: RedisOptions;
    retryStrategy: (times: number) => number;
  },
): Cluster {
  const { hostname, port, username, password, protocol } = new URL(url);
  return new Cluster([{ host: hostname.replaceAll(/[[\]]/g, ''), port: Number(port || 6379) }], {
    ...own,
    clusterRetryStrategy: retryStrategy,
    // A command may have run before its connection broke.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: commandTimeoutMs,
    // Certificates contain host names, but a Cluster may announce IP addresses.
    dnsLookup: (address, callback) => callback(null, address),
    redisOptions: {
      ...common,
      ...(username === '' ? {} : { username: decodeURIComponent(username) }),
      ...(password === '' ? {} : { password: decodeURIComponent(password) }),
      ...(protocol === 'rediss:' ? { tls: {} } : {}),
    },
  });
}

function checkUrl({ url, urlEnv }: RedisServer): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && ['redis:', 'rediss:'].includes(parsed.protocol) && parsed.hostname !== '')
    return;
  throw new WaybillError('secrets_invalid', `the value of ${urlEnv} is not the URL of a Redis`, {
    hint: 'write redis://host:6379, or rediss://user:password@host:6379/0 with TLS',
  });
}
