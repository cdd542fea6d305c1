import { Cluster } from 'ioredis';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { describeNetworkError, errnoOf } from '../../core/lib/system-errors.ts';
import { type RedisClient, redisClient, type RedisServer } from './redis-client.ts';

/** This process's connection to Redis, restored after each loss. */
export interface RedisLink {
  redis: RedisClient;
  readonly server: RedisServer;
  /**
   * Makes a call to Redis. Throws `queue_unavailable` if Redis is unreachable, or cannot answer or store
   * anything at the moment. Any other error is a defect. Errors never contain the URL or the arguments of a
   * command.
   */
  ask: <T>(work: () => Promise<T>) => Promise<T>;
  /**
   * How long the connection has been up and every call was answered, in milliseconds; 0 while it is down.
   */
  upForMs(): number;
  /** Returns another, unconnected client with the same settings. It is closed with this one. */
  another(): RedisClient;
  close(): void;
}

export interface LinkOptions extends RedisServer {
  log: Log;
  clock: Clock;
  /** How long to wait for the first connection, in milliseconds. Default: 10,000. */
  withinMs?: number;
}

const firstConnectionMs = 10_000;

/** Replies that concern the state of Redis, not the call. */
const passing =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|BUSY|NOREPLICAS|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

interface Refusal {
  why: string;
  hint: string;
}

/** By the first word of a reply: why Redis stores nothing, and the remedy for an operator. */
const refusals: Record<string, Refusal> = {
  OOM: {
    why: 'Redis is out of memory and stores nothing',
    hint: 'raise maxmemory of Redis, or remove other data from it',
  },
  READONLY: { why: 'this Redis is a read-only replica', hint: 'let the URL name the primary' },
  MISCONF: {
    why: 'Redis cannot write to its disk and stores nothing',
    hint: 'free space on the disk of Redis; its log has the cause',
  },
  NOPERM: {
    why: 'the Redis user lacks a permission',
    hint: 'give the user of the URL all commands on the keys and channels that docs/queue.md lists',
  },
  NOAUTH: { why: 'Redis asks for a password', hint: 'write the password into the URL' },
  WRONGPASS: { why: 'Redis does not accept the password', hint: 'correct the password in the URL' },
  WRONGTYPE: {
    why: 'another program has replaced a key of the queue by one of another type',
    hint: 'remove the key: `redis-cli --scan` with the prefix of the queue lists them, and `type` shows the type',
  },
};
const refusalLogEveryMs = 60_000;
/** How long a refusal counts as the reason for a missing connection. */
const refusalExplainsMs = 5_000;

/**
 * Connects, and checks that this Redis keeps its data. Throws `secrets_invalid` if the URL is malformed and
 * `queue_unavailable` if nothing answers in time. Throws `config_invalid` if Redis would evict data, or if it
 * is a Cluster and the settings name a single Redis, or the other way round.
 *
 * A call fails immediately while the connection is down. It is not repeated if the connection breaks before
 * the answer, because only the caller knows whether repeating is safe.
 */
export async function linkRedis({
  log,
  clock,
  withinMs = firstConnectionMs,
  ...server
}: LinkOptions): Promise<RedisLink> {
  const open = (): RedisClient => redisClient(server);
  const redis = open();
  const others: RedisClient[] = [];
  let upSince: number | null = null;
  let lastFailure = 'no answer';
  let isOutageLogged = false;
  let lastRefusal: { refusal: Refusal; at: number } | null = null;
  redis.on('error', (error: Error) => {
    const { lastNodeError } = error as { lastNodeError?: unknown };
    const cause = lastNodeError ?? error;
    lastFailure = describeNetworkError(
      cause instanceof Error && errnoOf(cause) !== undefined ? cause : plain(cause),
    );
  });
  redis.on('ready', () => {
    upSince = clock.monotonic();
    if (isOutageLogged) {
      log.info({}, 'redis is back');
      // Duplicate connections may be half-open; reconnect them.
      for (const other of others) other.disconnect(true);
    }
    isOutageLogged = false;
  });
  redis.on('close', () => {
    if (upSince !== null && !isOutageLogged) {
      log.warn({ reason: lastFailure }, 'redis is unreachable; uploads are refused until it is back');
      isOutageLogged = true;
    }
    upSince = null;
  });
  const close = (): void => {
    isOutageLogged = true; // Closing is no outage.
    for (const one of [redis, ...others]) one.disconnect();
  };
  const logged = new Map<string, number>();
  const logRefusal = ({ why, hint }: Refusal): void => {
    const before = logged.get(why);
    if (before !== undefined && clock.monotonic() - before < refusalLogEveryMs) return;
    logged.set(why, clock.monotonic());
    log.warn({ reason: why, hint }, 'redis refuses a command; uploads are refused');
  };
  const recentRefusal = (): Refusal | null =>
    lastRefusal !== null && clock.monotonic() - lastRefusal.at < refusalExplainsMs
      ? lastRefusal.refusal
      : null;
  const link: RedisLink = {
    redis,
    server,
    ask: async (work) => {
      try {
        return await work();
      } catch (error) {
        // No answer and no end of the connection: the line is cut. Reconnecting runs everything that follows
        // a reconnect.
        if (error instanceof Error && error.message === 'Command timed out') redis.disconnect(true);
        // After READONLY, reconnect in case another server is the primary now.
        const refusal = refusalOf(error);
        if (refusal !== null) {
          lastRefusal = { refusal, at: clock.monotonic() };
          logRefusal(refusal);
        }
        const thrown = asUnavailable(error, refusal ?? (isReply(error) ? null : recentRefusal()));
        // One node of a Cluster may be unreachable while the connection is up.
        if (hasCode(thrown, 'queue_unavailable') && upSince !== null) upSince = clock.monotonic();
        throw thrown;
      }
    },
    upForMs: () => (upSince === null ? 0 : Math.max(1, clock.monotonic() - upSince)),
    another: () => {
      const other = open();
      other.on('error', () => undefined);
      others.push(other);
      return other;
    },
    close,
  };
  try {
    await connected(redis, clock, withinMs, () => lastFailure, server);
    await checkServer(link, log);
  } catch (error) {
    close();
    throw error;
  }
  return link;
}

/**
 * Makes an error of BullMQ or ioredis safe to log. The originals contain the command with its arguments, and
 * `AUTH` is a command.
 */
export function plain(error: unknown): Error {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return new Error(name === 'Error' || name === 'ReplyError' ? message : `${name}: ${message}`);
}

function asUnavailable(error: unknown, refusal: Refusal | null): WaybillError | Error {
  if (error instanceof WaybillError) return error;
  const cause = plain(error);
  if (isReply(error) && refusal === null && !passing.test(cause.message)) return cause;
  if (refusal !== null)
    return new WaybillError('queue_unavailable', `the queue of this daemon takes nothing: ${refusal.why}`, {
      cause,
      hint: refusal.hint,
    });
  return new WaybillError('queue_unavailable', 'the queue of this daemon cannot be reached', {
    cause,
    hint: 'try again shortly',
  });
}

/** null if the error is not such a reply. */
function refusalOf(error: unknown): Refusal | null {
  // Redis passes on the reply to a command that a script has called.
  const word =
    /\b(OOM|READONLY|MISCONF|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE)\b/.exec(plain(error).message)?.[1] ?? '';
  return isReply(error) ? (refusals[word] ?? null) : null;
}

/**
 * Whether Redis refused a command because another program has replaced a value by one of another type or
 * shape.
 */
export function isDamage(error: unknown): error is Error {
  return isReply(error) && /^(?:ERR|WRONGTYPE)\b/.test(error.message);
}

function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

async function connected(
  redis: RedisClient,
  clock: Clock,
  withinMs: number,
  lastFailure: () => string,
  { urlEnv }: RedisServer,
): Promise<void> {
  const ready = new Promise<boolean>((resolve) => {
    const timeout = clock.timeout(withinMs, () => resolve(false));
    redis.once('ready', () => {
      timeout.cancel();
      resolve(true);
    });
  });
  // The promise rejects at the first refusal, but the client keeps trying.
  redis.connect().catch(() => undefined);
  if (await ready) return;
  if (lastFailure().includes('cluster support disabled'))
    throw new WaybillError('config_invalid', `server.queue: the Redis of ${urlEnv} is not a Redis Cluster`, {
      hint: 'remove redis_cluster from server.queue, or name a node of a Cluster',
    });
  throw new WaybillError('queue_unavailable', `Redis (${urlEnv}) cannot be reached: ${lastFailure()}`, {
    hint: 'start Redis, or correct the URL in that variable',
  });
}

/**
 * Throws if the server is a node of a Cluster and the settings name a single Redis.
 *
 * Throws if Redis has an eviction policy and a memory limit: it would silently drop accepted uploads, keys
 * and locks. Warns if it has a policy without a limit, because a limit set later would start the eviction.
 * Warns if it does not persist its data, because a restart would lose accepted runs.
 */
async function checkServer({ redis, ask }: RedisLink, log: Log): Promise<void> {
  const nodes = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const warnings = new Map<string, object>();
  for (const node of nodes) {
    const facts = factsOf(await ask(() => node.info()));
    if (facts.get('redis_mode') === 'cluster' && !(redis instanceof Cluster))
      throw new WaybillError('config_invalid', 'server.queue: this Redis is a node of a Redis Cluster', {
        hint: 'set redis_cluster: true in server.queue',
      });
    const policy = facts.get('maxmemory_policy') ?? 'noeviction';
    if (policy !== 'noeviction' && Number(facts.get('maxmemory') ?? 0) > 0)
      throw new WaybillError(
        'config_invalid',
        `server.queue: this Redis has a memory limit and the eviction policy "${policy}", so it would throw away accepted uploads`,
        { hint: 'set maxmemory-policy noeviction, or use a Redis of its own' },
      );
    if (policy !== 'noeviction')
      warnings.set(
        'redis has no memory limit now; with one, its eviction policy would throw away accepted uploads: set maxmemory-policy noeviction',
        { policy },
      );
    if (facts.get('aof_enabled') === '0')
      warnings.set('redis has appendonly off: accepted uploads can be lost when it restarts', {});
  }
  for (const [message, fields] of warnings) log.warn(fields, message);
}

function factsOf(info: string): Map<string, string> {
  return new Map(
    info
      .split(/\r?\n/)
      .filter((line) => line.includes(':'))
      .map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}
