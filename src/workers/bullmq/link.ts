import { Cluster } from 'ioredis';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { describeNetworkError, errnoOf } from '../../core/lib/system-errors.ts';
import { keepConnected, type RedisClient, redisClient, type RedisServer } from './redis-client.ts';

export interface LinkOptions extends RedisServer {
  log: Log;
  clock: Clock;
  /** The timeout for the first connection, in milliseconds. Default: 10,000. */
  withinMs?: number;
}

const firstConnectionMs = 10_000;

/** Redis errors that are caused by the server's current state rather than by the call itself. */
const passing =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|OOM|MISCONF|BUSY|NOREPLICAS|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

interface Refusal {
  why: string;
  hint: string;
}

/**
 * Explains to operators why Redis rejects writes and what they can do about it. Keyed by the reply's first
 * word.
 */
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
  NOREPLICAS: {
    why: 'Redis has fewer replicas than min-replicas-to-write',
    hint: 'check the replicas: `redis-cli info replication` on the primary lists them',
  },
  WRONGTYPE: {
    why: 'another program has replaced a key of the queue by one of another type',
    hint: 'remove the key: `redis-cli --scan` with the prefix of the queue lists them, and `type` shows the type',
  },
};
const refusalLogEveryMs = 60_000;
/** How long the error of a rejected command is reported as the reason for a missing connection. */
const refusalExplainsMs = 5_000;

/**
 * This process's connection to Redis. It reconnects automatically, and calls fail immediately while it is
 * down. If the connection drops before the reply arrives, the call isn't repeated, because only the caller
 * knows whether that would be safe.
 */
export class RedisLink {
  readonly redis: RedisClient;
  readonly server: RedisServer;
  readonly clock: Clock;
  readonly log: Log;
  /** Additional clients that use the same settings. */
  readonly #others: RedisClient[] = [];
  /**
   * The time at which the connection came up or a call last failed, whichever is later. null while it's down.
   */
  #upSince: number | null = null;
  #lastFailure = 'no answer';
  #isOutageLogged = false;
  #isClosed = false;
  #lastRefusal: { refusal: Refusal; at: number } | null = null;
  /** The time at which each kind of rejection was last logged. */
  readonly #loggedAt = new Map<string, number>();

  private constructor({ log, clock }: { log: Log; clock: Clock }, server: RedisServer) {
    this.clock = clock;
    this.log = log;
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
    keepConnected(this.redis, () => this.#isClosed);
  }

  /**
   * Connects, and checks that this Redis won't lose data. Throws `secrets_invalid` if the URL is malformed,
   * `queue_unavailable` if nothing answers in time, and `config_invalid` if Redis is set up to evict data.
   * Also throws `config_invalid` if the settings are for a single Redis but this one is a Cluster, or the
   * other way around.
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
   * Runs a Redis call. Throws `queue_unavailable` if Redis is unreachable or currently can't answer or store
   * anything. Any other error is a bug. Errors never include the URL or any command arguments.
   */
  readonly ask = async <T>(work: () => Promise<T>, client: RedisClient = this.redis): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // We got no reply, yet the connection didn't close, so it must be dead. Reconnecting also triggers the
      // code that has to run after every reconnect. In a Cluster, only the connection to one node is dead.
      // `socketTimeout` closes it, and reconnecting would break the calls to all the other nodes.
      if (error instanceof Error && error.message === 'Command timed out' && !(client instanceof Cluster))
        client.disconnect(true);
      // Reconnect after READONLY, since another server may be the primary by now.
      const refusal = refusalOf(error);
      if (refusal !== null) this.#noteRefusal(refusal);
      const thrown = asUnavailable(error, refusal ?? (isReply(error) ? null : this.#recentRefusal()));
      // In a Cluster, one node may be unreachable even though the connection is up. Damage is no outage.
      if (hasCode(thrown, 'queue_unavailable') && this.#upSince !== null && !isDamage(error))
        this.#upSince = this.clock.monotonic();
      throw thrown;
    }
  };

  /**
   * Returns how long, in milliseconds, the connection has been up without a failed call. Returns 0 if it's
   * down.
   */
  upForMs(): number {
    return this.#upSince === null ? 0 : Math.max(1, this.clock.monotonic() - this.#upSince);
  }

  /**
   * Creates another client with the same settings. It isn't connected yet, and gets closed along with this
   * link.
   */
  another(): RedisClient {
    const other = redisClient(this.server);
    other.on('error', () => undefined);
    keepConnected(other, () => this.#isClosed);
    this.#others.push(other);
    return other;
  }

  close(): void {
    this.#isClosed = true;
    this.#isOutageLogged = true; // Closing is not an outage.
    for (const client of [this.redis, ...this.#others]) client.disconnect();
  }

  async #connect(withinMs: number): Promise<void> {
    const ready = new Promise<boolean>((resolve) => {
      const timeout = this.clock.timeout(withinMs, () => resolve(false));
      this.redis.once('ready', () => {
        timeout.cancel();
        resolve(true);
      });
    });
    // This promise rejects at the first failure, but the client keeps retrying.
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
      hint: `start Redis, or correct the URL in the variable ${urlEnv}`,
    });
  }

  #onReady(): void {
    this.#upSince = this.clock.monotonic();
    if (!this.#isOutageLogged) return;
    this.#isOutageLogged = false;
    this.log.info({}, 'redis is back');
    // The other clients' connections may be half-open, so reconnect those as well.
    for (const other of this.#others) other.disconnect(true);
  }

  #onClose(): void {
    if (this.#upSince !== null && !this.#isOutageLogged) {
      this.#isOutageLogged = true;
      const reason = this.#lastFailure;
      this.log.warn({ reason }, 'redis is unreachable; uploads are refused until it is back');
    }
    this.#upSince = null;
  }

  /** Logs that Redis rejected a command, at most once per minute. */
  #noteRefusal(refusal: Refusal): void {
    const now = this.clock.monotonic();
    this.#lastRefusal = { refusal, at: now };
    const { why: reason, hint } = refusal;
    if (now - (this.#loggedAt.get(reason) ?? -Infinity) < refusalLogEveryMs) return;
    this.#loggedAt.set(reason, now);
    this.log.warn({ reason, hint }, 'redis refuses a command; uploads are refused');
  }

  #recentRefusal(): Refusal | null {
    if (this.#lastRefusal === null) return null;
    const { refusal, at } = this.#lastRefusal;
    return this.clock.monotonic() - at < refusalExplainsMs ? refusal : null;
  }
}

/**
 * Strips a BullMQ or ioredis error of everything that isn't safe to log. The original includes the command
 * and its arguments, which for `AUTH` means the password.
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
    return new WaybillError('queue_unavailable', `the queue of this daemon accepts nothing: ${refusal.why}`, {
      cause,
      hint: refusal.hint,
    });
  return new WaybillError('queue_unavailable', 'the queue of this daemon cannot be reached', {
    cause,
    hint: 'try again shortly',
  });
}

/**
 * Finds the explanation for an error. Returns null if Redis didn't reject the command for one of the known
 * reasons.
 */
function refusalOf(error: unknown): Refusal | null {
  // If the command was called by a script, Redis wraps the reply.
  const word =
    /\b(OOM|READONLY|MISCONF|NOPERM|NOAUTH|WRONGPASS|NOREPLICAS|WRONGTYPE)\b/.exec(
      plain(error).message,
    )?.[1] ?? '';
  return isReply(error) ? (refusals[word] ?? null) : null;
}

/**
 * Reports whether Redis rejected a command because of a value with the wrong type or format, which means that
 * another program has overwritten it.
 */
export function isDamage(error: unknown): error is Error {
  return isReply(error) && /^(?:ERR|WRONGTYPE)\b/.test(error.message);
}

function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/**
 * Checks the server's settings.
 *
 * Throws a `config_invalid` error if the server is a Cluster node but the settings are for a single Redis, or
 * if it has both a memory limit and an eviction policy, since it would then silently drop accepted uploads,
 * keys, and locks. Only warns if there is a policy but no limit, because eviction would start as soon as one
 * is set. Also warns if persistence is off, because a restart would lose accepted runs.
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
