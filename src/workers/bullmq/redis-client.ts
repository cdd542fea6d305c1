import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { BullmqConfig } from '../../core/config/config.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { isRedisUrl } from '../../core/lib/settings/parse-values.ts';

/** The settings for connecting to Redis and finding the primary. */
export interface RedisServer {
  /** Includes the password, so it must never be logged. */
  url: string;
  /** The environment variable that contains the URL, for use in messages. */
  urlEnv: string;
  /** The prefix of all keys, as configured. */
  prefix: string;
  /**
   * The Sentinels to ask for the primary. The URL then only provides the user, password, database, and TLS
   * setting.
   */
  sentinels?: BullmqConfig['redisSentinels'];
  /** True if the URL points to a node of a Redis Cluster (any of them will do). */
  isCluster?: boolean;
}

/** A client for a single Redis server or for a Cluster. */
export type RedisClient = Redis | Cluster;

/** Determines how to connect to Redis. Throws `secrets_invalid` if the URL is missing or malformed. */
export function redisServer(
  { redisUrlEnv: urlEnv, prefix, redisSentinels: sentinels, redisCluster: isCluster }: BullmqConfig,
  secrets: Pick<Secrets, 'require'>,
): RedisServer {
  const server = { url: secrets.require(urlEnv, 'server.queue'), urlEnv, prefix, sentinels, isCluster };
  checkUrl(server);
  return server;
}

/**
 * Returns the prefix for all keys. In a Cluster, a script can only use keys that are on the same node, so the
 * prefix includes a hash tag `{…}` that keeps them together.
 */
export function keyRoot({ prefix, isCluster = false }: RedisServer): string {
  return isCluster ? `{${untagged(prefix)}}` : prefix;
}

/** Returns the prefix for a pipeline's BullMQ keys. In a Cluster, every pipeline gets its own hash tag. */
export function ticketRoot({ prefix, isCluster = false }: RedisServer, pipelineId: string): string {
  return isCluster ? `{${untagged(prefix)}:${pipelineId}}` : `${prefix}:queue`;
}

const untagged = (prefix: string): string => prefix.replaceAll(/[{}]/g, '');

const commandTimeoutMs = 3_000;
const maxPauseMs = 1_000;

/** Creates a client that is not connected yet. Throws `secrets_invalid` if the URL is malformed. */
export function redisClient(server: RedisServer): RedisClient {
  checkUrl(server);
  const { url, sentinels = null, isCluster = false } = server;
  if (isCluster) return clusterClient(url);
  const options: RedisOptions = { ...common, lazyConnect: true, enableOfflineQueue: false, retryStrategy };
  if (sentinels === null) return new Redis(url, options);
  const tls = url.startsWith('rediss:') ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
  return new Redis(url, {
    ...options,
    ...tls,
    sentinels: [...sentinels.hosts],
    name: sentinels.master,
    failoverDetector: true,
    sentinelRetryStrategy: retryStrategy,
  });
}

const retryStrategy = (times: number): number => Math.min(50 * 2 ** Math.min(times, 10), maxPauseMs);

const common = {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  // `autoResubscribe` can fail silently after a quick reconnect. Subscribers listen for `ready` instead.
  autoResubscribe: false,
  connectTimeout: commandTimeoutMs,
  commandTimeout: commandTimeoutMs,
  // After a failover, the old primary is read-only, so look for the new one.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
} satisfies RedisOptions;

/**
 * Connects a client again after ioredis has given it up. It does that if a connection is closed while the
 * client still asks the Sentinels for the primary, for example because one of them reports a failover.
 */
export function keepConnected(client: RedisClient, isClosed: () => boolean): void {
  client.on('end', () => {
    if (!isClosed()) client.connect().catch(() => undefined);
  });
}

function clusterClient(url: string): Cluster {
  const { hostname, port, username, password, protocol } = new URL(url);
  const cluster = new Cluster([{ host: hostname.replaceAll(/[[\]]/g, ''), port: Number(port || 6379) }], {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retryStrategy,
    // Do not resend commands. They may have been executed before the connection broke.
    retryDelayOnFailover: 0,
    slotsRefreshTimeout: commandTimeoutMs,
    // A Cluster may announce IP addresses, but certificates are issued for host names.
    dnsLookup: (address, callback) => callback(null, address),
    redisOptions: {
      ...common,
      // Closes the connection to a node that no longer responds.
      socketTimeout: commandTimeoutMs,
      username: decodeURIComponent(username) || undefined,
      password: decodeURIComponent(password) || undefined,
      tls: protocol === 'rediss:' ? {} : undefined,
    },
  });
  // While a slot moves, ioredis sends ASKING and ignores its promise. A rejection would end this process.
  cluster.on('+node', (node: Redis) => {
    const asking = node.asking.bind(node);
    node.asking = () => {
      const reply = asking();
      reply.catch(() => undefined);
      return reply;
    };
  });
  return cluster;
}

function checkUrl({ url, urlEnv }: RedisServer): void {
  if (isRedisUrl(url)) return;
  throw new WaybillError('secrets_invalid', `the value of ${urlEnv} is not a Redis URL`, {
    hint: 'write redis://host:6379, or rediss://user:password@host:6379/0 with TLS, and %25 for a "%" in a password',
  });
}
