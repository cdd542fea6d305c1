import { Cluster } from 'ioredis';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { describeNetworkError, errnoOf } from '../../core/lib/system-errors.ts';
import { type RedisClient, redisClient, type RedisServer } from './redis-client.ts';

export interface LinkOptions extends RedisServer {
  log: Log;
  clock: Clock;
  /** How long to wait for the first connection, in milliseconds. Default: 10,000. */
  withinMs?: number;
}

const firstConnectionMs = 10_000;

/** Replies about the state of Redis rather than about the call. */
const passing =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|OOM|MISCONF|BUSY|NOREPLICAS|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

interface Refusal {
  why: string;
  hint: string;
}

/** Why Redis rejects writes and what an operator can do about it, keyed by the first word of the reply. */
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
/** How long a refusal is reported as the reason for a missing connection. */
const refusalExplainsMs = 5_000;

/**
 * This process's connection to Redis, which is restored after each loss. A call fails immediately while the
 * connection is down. If the connection breaks before the reply, the call is not repeated, because only the
 * caller knows whether that is safe.
 */
export class RedisLink {
  readonly redis: RedisClient;
  readonly server: RedisServer;
  readonly #clock: Clock;
  readonly #log: Log;
  /** Additional clients with the same settings. */
  readonly #others: RedisClient[] = [];
  /** When the connection came up or a call last failed. null while the connection is down. */
  #upSince: number | null = null;
  #lastFailure = 'no answer';
  #isOutageLogged = false;
  #lastRefusal: { refusal: Refusal; at: number } | null = null;
  /** When each refusal was last logged. */
  readonly #loggedAt = new Map<string, number>();

  private constructor({ log, clock }: { log: Log; clock: Clock }, server: RedisServer) {
    this.#clock = clock;
    this.#log = log;
    this.server = server;
    this.redis = redisClient(server);
    this.redis.on('error', (error: Error) => {
      const { lastNodeError } = error as { lastNodeError?: unknown };
      const cause = lastNodeError ?? error;
      this.#lastFailure = describeNetworkError(
        cause instanceof Error && errnoOf(cause) !== undefined ? cause : plain(cause),
      );
    });
    this.redis.on('ready', () => this.#onReady());
    this.redis.on('close', () => this.#onClose());
  }

  /**
   * Connects, and checks that this Redis keeps its data. Throws `secrets_invalid` if the URL is malformed and
   * `queue_unavailable` if nothing answers in time. Throws `config_invalid` if Redis would evict data, or if
   * the settings name a single Redis but it is a Cluster, or vice versa.
   */
  static async open(options: LinkOptions): Promise<RedisLink> {
    const { log, clock, withinMs = firstConnectionMs, ...server } = options;
    const link = new RedisLink({ log, clock }, server);
    try {
      await link.#connect(withinMs);
      await checkServer(link, log);
    } catch (error) {
      link.close();
      throw error;
    }
    return link;
  }

  /**
   * Makes a call to Redis. Throws `queue_unavailable` if Redis is unreachable, or cannot answer or store
   * anything at the moment. Any other error is a bug. Errors never contain the URL or a command's arguments.
   */
  readonly ask = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // There was no reply, but the connection did not close either, so the line is dead. Reconnecting also
      // triggers everything that runs after a reconnect.
      if (error instanceof Error && error.message === 'Command timed out') this.redis.disconnect(true);
      // Reconnect after READONLY, because another server may now be the primary.
      const refusal = refusalOf(error);
      if (refusal !== null) this.#noteRefusal(refusal);
      const thrown = asUnavailable(error, refusal ?? (isReply(error) ? null : this.#recentRefusal()));
      // A single Cluster node may be unreachable while the connection is up.
      if (hasCode(thrown, 'queue_unavailable') && this.#upSince !== null)
        this.#upSince = this.#clock.monotonic();
      throw thrown;
    }
  };

  /**
   * Returns how long, in milliseconds, the connection has been up with every call answered. Returns 0 while
   * it is down.
   */
  upForMs(): number {
    return this.#upSince === null ? 0 : Math.max(1, this.#clock.monotonic() - this.#upSince);
  }

  /**
   * Returns an additional, unconnected client with the same settings. It is closed together with this link.
   */
  another(): RedisClient {
    const other = redisClient(this.server);
    other.on('error', () => undefined);
    this.#others.push(other);
    return other;
  }

  close(): void {
    this.#isOutageLogged = true; // Closing is not an outage.
    for (const client of [this.redis, ...this.#others]) client.disconnect();
  }

  async #connect(withinMs: number): Promise<void> {
    const ready = new Promise<boolean>((resolve) => {
      const timeout = this.#clock.timeout(withinMs, () => resolve(false));
      this.redis.once('ready', () => {
        timeout.cancel();
        resolve(true);
      });
    });
    // The promise rejects at the first failure, but the client keeps trying.
    this.redis.connect().catch(() => undefined);
    if (await ready) return;
    const { urlEnv } = this.server;
    if (this.#lastFailure.includes('cluster support disabled'))
      throw new WaybillError(
        'config_invalid',
        `server.queue: the Redis of ${urlEnv} is not a Redis Cluster`,
        {
          hint: 'remove redis_cluster from server.queue, or name a node of a Cluster',
        },
      );
    throw new WaybillError('queue_unavailable', `Redis (${urlEnv}) cannot be reached: ${this.#lastFailure}`, {
      hint: 'start Redis, or correct the URL in that variable',
    });
  }

  #onReady(): void {
    this.#upSince = this.#clock.monotonic();
    if (!this.#isOutageLogged) return;
    this.#isOutageLogged = false;
    this.#log.info({}, 'redis is back');
    // Their connections may be half-open, so reconnect them.
    for (const other of this.#others) other.disconnect(true);
  }

  #onClose(): void {
    if (this.#upSince !== null && !this.#isOutageLogged) {
      this.#isOutageLogged = true;
      const reason = this.#lastFailure;
      this.#log.warn({ reason }, 'redis is unreachable; uploads are refused until it is back');
    }
    this.#upSince = null;
  }

  /** Logs the refusal, at most once a minute. */
  #noteRefusal(refusal: Refusal): void {
    const now = this.#clock.monotonic();
    this.#lastRefusal = { refusal, at: now };
    const { why: reason, hint } = refusal;
    if (now - (this.#loggedAt.get(reason) ?? -Infinity) < refusalLogEveryMs) return;
    this.#loggedAt.set(reason, now);
    this.#log.warn({ reason, hint }, 'redis refuses a command; uploads are refused');
  }

  #recentRefusal(): Refusal | null {
    if (this.#lastRefusal === null) return null;
    const { refusal, at } = this.#lastRefusal;
    return this.#clock.monotonic() - at < refusalExplainsMs ? refusal : null;
  }
}

/**
 * Makes a BullMQ or ioredis error safe to log. The original contains the command with its arguments, and
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

/** Returns null if the error is not such a reply. */
function refusalOf(error: unknown): Refusal | null {
  // Redis wraps the reply to a command that a script called.
  const word =
    /\b(OOM|READONLY|MISCONF|NOPERM|NOAUTH|WRONGPASS|WRONGTYPE)\b/.exec(plain(error).message)?.[1] ?? '';
  return isReply(error) ? (refusals[word] ?? null) : null;
}

/**
 * Reports whether Redis rejected a command because another program replaced a value with one of a different
 * type or shape.
 */
export function isDamage(error: unknown): error is Error {
  return isReply(error) && /^(?:ERR|WRONGTYPE)\b/.test(error.message);
}

function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/**
 * Throws if the server is a node of a Cluster and the settings name a single Redis.
 *
 * Throws if Redis has an eviction policy and a memory limit: it would silently drop accepted uploads, keys
 * and locks. Warns if it has a policy but no limit, because setting a limit later would start eviction. Warns
 * if it does not persist its data, because a restart would lose accepted runs.
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
