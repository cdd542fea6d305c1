import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';

/** The connection of this process to Redis, which comes back by itself whenever it was lost. */
export interface RedisLink {
  redis: Redis;
  /**
   * Runs a call of Redis. Throws `queue_unavailable` where Redis cannot be reached, or cannot answer or keep
   * anything now; what a call throws else is a defect. Nothing that is thrown holds the URL or the arguments
   * of a command.
   */
  ask: <T>(work: () => Promise<T>) => Promise<T>;
  /** For how long the connection has been up without a break, in milliseconds; 0 while it is down. */
  upForMs(): number;
  /** Another connection of the same settings; closed with this one. */
  another(): Redis;
  close(): void;
}

export interface LinkOptions {
  /** With the password in it: never shown. */
  url: string;
  /** The name of the variable that holds the URL, for messages. */
  urlEnv: string;
  log: Log;
  monotonic: () => number;
}

const firstConnectionMs = 10_000;
const commandTimeoutMs = 3_000;
const longestPauseMs = 1_000;

/** Replies that tell of Redis's condition and not of our call. */
const passing =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|BUSY|NOREPLICAS|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

/**
 * Connects, and checks that this Redis keeps what it is given. Throws `secrets_invalid` where the URL is
 * none, `queue_unavailable` where nothing answers within ten seconds, `config_invalid` where Redis would
 * evict.
 *
 * A call fails at once while the connection is down, and is not sent again by itself when it breaks in
 * between: the caller knows what is safe to repeat.
 */
export async function linkRedis({ url, urlEnv, log, monotonic }: LinkOptions): Promise<RedisLink> {
  checkUrl(url, urlEnv);
  const open = (): Redis =>
    new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: null,
      // Its own way fails unheard where the connection breaks again at once; who subscribes does so at each
      // `ready`.
      autoResubscribe: false,
      connectTimeout: commandTimeoutMs,
      commandTimeout: commandTimeoutMs,
      retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 10), longestPauseMs),
      // After a failover: this server is not the one that takes writes any more.
      reconnectOnError: (error) => error.message.startsWith('READONLY'),
    });
  const redis = open();
  const others: Redis[] = [];
  let upSince: number | null = null;
  let lastFailure = 'no answer';
  let told = false;
  redis.on('error', (error: Error) => (lastFailure = plain(error).message));
  redis.on('ready', () => {
    upSince = monotonic();
    if (told) {
      log.info({}, 'redis is back');
      // Theirs may be dead without knowing it.
      for (const other of others) other.disconnect(true);
    }
    told = false;
  });
  redis.on('close', () => {
    if (upSince !== null && !told) {
      log.warn({ reason: lastFailure }, 'redis is away; uploads are refused until it is back');
      told = true;
    }
    upSince = null;
  });
  const close = (): void => {
    told = true;
    for (const one of [redis, ...others]) one.disconnect();
  };
  const link: RedisLink = {
    redis,
    ask: async (work) => {
      try {
        return await work();
      } catch (error) {
        // Nobody answers, and nothing closed the connection either: a cut line. A new one counts as Redis
        // being back, with all that follows from it.
        if (error instanceof Error && error.message === 'Command timed out') redis.disconnect(true);
        throw asUnavailable(error);
      }
    },
    upForMs: () => (upSince === null ? 0 : Math.max(1, monotonic() - upSince)),
    another: () => {
      const other = open();
      other.on('error', () => undefined);
      others.push(other);
      return other;
    },
    close,
  };
  try {
    await connected(redis, () => lastFailure, urlEnv);
    await checkServer(link, log);
  } catch (error) {
    close();
    throw error;
  }
  return link;
}

/**
 * What BullMQ and ioredis throw, as an error that is safe to log: theirs carry the command with its
 * arguments, and `AUTH` is a command.
 */
export function plain(error: unknown): Error {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return new Error(name === 'Error' || name === 'ReplyError' ? message : `${name}: ${message}`);
}

function asUnavailable(error: unknown): WaybillError | Error {
  if (error instanceof WaybillError) return error;
  const cause = plain(error);
  const isReply = error instanceof Error && error.name === 'ReplyError';
  if (isReply && !passing.test(cause.message)) return cause;
  return new WaybillError('queue_unavailable', 'the queue of this daemon cannot be reached', {
    cause,
    hint: 'try again shortly',
  });
}

function checkUrl(url: string, urlEnv: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && ['redis:', 'rediss:'].includes(parsed.protocol) && parsed.hostname !== '')
    return;
  throw new WaybillError('secrets_invalid', `the value of ${urlEnv} is not the URL of a Redis`, {
    hint: 'write redis://host:6379, or rediss://user:password@host:6379/0 with TLS',
  });
}

async function connected(redis: Redis, lastFailure: () => string, urlEnv: string): Promise<void> {
  const ready = new Promise<'ready'>((resolve) => redis.once('ready', () => resolve('ready')));
  // Its own promise gives up at the first refusal; the connection goes on trying.
  redis.connect().catch(() => undefined);
  const enough = new AbortController();
  const late = delay(firstConnectionMs, 'late' as const, { signal: enough.signal });
  late.catch(() => undefined);
  const first = await Promise.race([ready, late]);
  enough.abort();
  if (first === 'ready') return;
  throw new WaybillError('queue_unavailable', `Redis (${urlEnv}) cannot be reached: ${lastFailure()}`, {
    hint: 'start Redis, or correct the URL',
  });
}

/**
 * With an eviction policy and a memory limit Redis would throw away accepted uploads, keys and locks in
 * silence: refused. Without a limit nothing is evicted until somebody sets one: told. The same for
 * persistence, without which a restart of Redis forgets what was accepted.
 */
async function checkServer({ redis, ask }: RedisLink, log: Log): Promise<void> {
  const facts = new Map(
    (await ask(() => redis.info()))
      .split(/\r?\n/)
      .filter((line) => line.includes(':'))
      .map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
  const policy = facts.get('maxmemory_policy') ?? 'noeviction';
  if (policy !== 'noeviction' && Number(facts.get('maxmemory') ?? 0) > 0)
    throw new WaybillError(
      'config_invalid',
      `server.queue: this Redis has a memory limit and the eviction policy "${policy}", so it would throw away accepted uploads`,
      { hint: 'set maxmemory-policy noeviction, or use a Redis of its own' },
    );
  if (policy !== 'noeviction')
    log.warn(
      { policy },
      'redis has no memory limit now; with one, its eviction policy would throw away accepted uploads: set maxmemory-policy noeviction',
    );
  if (facts.get('aof_enabled') === '0')
    log.warn({}, 'redis has appendonly off: what was accepted can be lost when it restarts');
}
