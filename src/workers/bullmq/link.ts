import { Cluster } from 'ioredis';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { describeNetworkError, errnoOf } from '../../core/lib/system-errors.ts';
import { keepConnected, keyRoot, type RedisClient, redisClient, type RedisServer } from './redis-client.ts';
import { asUnavailable, isDamage, isReply, type Refusal, refusalOf, safeError } from './redis-errors.ts';
import { defineScripts, type RunScript } from './scripts.ts';

interface LinkOptions extends RedisServer {
  log: Log;
  clock: Clock;
  /** The timeout for the first connection, in milliseconds. Default: 10,000. */
  withinMs?: number;
}

const refusalLogEveryMs = 60_000;
/** How long the error of a rejected command is reported as the reason for a missing connection. */
const refusalExplainsMs = 5_000;
const maxRetryPauseMs = 2_000;

/**
 * This process's connection to Redis. It reconnects automatically, and calls fail immediately while it is
 * down. If the connection drops before the reply arrives, the call is not repeated, because only the caller
 * knows whether that would be safe.
 */
export class RedisLink {
  readonly redis: RedisClient;
  readonly server: RedisServer;
  readonly clock: Clock;
  readonly log: Log;
  /** The prefix of every key and channel. */
  readonly root: string;
  /** Calls a script. Throws the same errors as `ask`. */
  readonly run: RunScript;
  /** Like `run`, for a script that returns a list. Numbers are returned as text. */
  readonly list: RunScript<string[]>;
  /** Additional clients that use the same settings. */
  readonly #others: RedisClient[] = [];
  /**
   * The time at which the connection came up or a call last failed, whichever is later. null while it is
   * down.
   */
  #upSince: number | null = null;
  #lastFailure = 'no answer';
  #isOutageLogged = false;
  #isClosed = false;
  #lastRefusal: { refusal: Refusal; at: number } | null = null;
  /** The time at which each kind of rejection was last logged. */
  readonly #loggedAt = new Map<string, number>();

  private constructor(clock: Clock, log: Log, server: RedisServer) {
    this.clock = clock;
    this.log = log;
    this.server = server;
    this.root = keyRoot(server);
    this.redis = redisClient(server);
    this.redis.on('error', (error: Error) => {
      const { lastNodeError } = error as { lastNodeError?: unknown };
      const cause = lastNodeError ?? error;
      this.#lastFailure = describeNetworkError(
        cause instanceof Error && errnoOf(cause) !== undefined ? cause : safeError(cause),
      );
    });
    this.redis.on('ready', () => this.#onReady());
    this.redis.on('close', () => this.#onClose());
    keepConnected(this.redis, () => this.#isClosed);
    const script = defineScripts(this.redis, this.root);
    this.run = (...call) => this.ask(() => script(...call));
    this.list = async (...call) => ((await this.run(...call)) as unknown[]).map(String);
  }

  /**
   * Connects, and checks that this Redis will not lose data. Throws `secrets_invalid` if the URL is
   * malformed, `queue_unavailable` if nothing answers in time, and `config_invalid` if Redis is set up to
   * evict data. Also throws `config_invalid` if the settings are for a single Redis but this one is a
   * Cluster, or the other way around.
   */
  static async open({ log, clock, withinMs = 10_000, ...server }: LinkOptions): Promise<RedisLink> {
    const link = new RedisLink(clock, log, server);
    try {
      await link.#connect(withinMs);
      await checkServer(link);
    } catch (error) {
      link.close();
      throw error;
    }
    return link;
  }

  /** Returns the Redis key or channel of a name that `scripts/shared.lua` lists. */
  key(name: string): string {
    return `${this.root}:${name}`;
  }

  /**
   * Runs a Redis call. Throws `queue_unavailable` if Redis is unreachable or currently cannot answer or store
   * anything. Any other error is a bug. Errors never include the URL or any command arguments.
   */
  async ask<T>(work: () => Promise<T>, client: RedisClient = this.redis): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // We got no reply, yet the connection did not close, so it must be dead. Reconnecting also triggers the
      // code that has to run after every reconnect. In a Cluster, only the connection to one node is dead.
      // `socketTimeout` closes it, and reconnecting would break the calls to all the other nodes.
      if (error instanceof Error && error.message === 'Command timed out' && !(client instanceof Cluster))
        client.disconnect(true);
      const refusal = refusalOf(error);
      if (refusal !== null) this.#noteRefusal(refusal);
      const thrown = asUnavailable(error, refusal ?? (isReply(error) ? null : this.#recentRefusal()));
      // In a Cluster, one node may be unreachable even though the connection is up. Damage is no outage.
      if (hasCode(thrown, 'queue_unavailable') && this.#upSince !== null && !isDamage(error))
        this.#upSince = this.clock.monotonic();
      throw thrown;
    }
  }

  /**
   * Repeats a call until Redis is reachable. Once `signal` has aborted, throws `queue_unavailable` instead of
   * repeating it. Other errors are thrown immediately.
   */
  async untilAvailable<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, maxRetryPauseMs)) {
      try {
        return await work();
      } catch (error) {
        if (!hasCode(error, 'queue_unavailable') || signal.aborted) throw error;
        await this.clock.sleep(pauseMs, signal).catch(() => undefined);
      }
    }
  }

  /**
   * Returns how long, in milliseconds, the connection has been up without a failed call. Returns 0 if it is
   * down.
   */
  upForMs(): number {
    return this.#upSince === null ? 0 : Math.max(1, this.clock.monotonic() - this.#upSince);
  }

  /** Opens another connection with the same settings. It gets closed along with this link. */
  another(): RedisClient {
    const other = redisClient(this.server);
    other.on('error', () => undefined);
    keepConnected(other, () => this.#isClosed);
    this.#others.push(other);
    connect(other);
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
    connect(this.redis);
    if (await ready) return;
    const { urlEnv } = this.server;
    if (this.#lastFailure.includes('cluster support disabled'))
      throw new WaybillError(
        'config_invalid',
        `server.queue: the Redis of ${urlEnv} is not a Redis Cluster`,
        { hint: 'remove redis_cluster from server.queue, or name a node of a Cluster' },
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

/** The promise of the first connection rejects at the first failure, but the client keeps trying. */
function connect(client: RedisClient): void {
  client.connect().catch(() => undefined);
}

/**
 * Checks the server's settings.
 *
 * Throws a `config_invalid` error if the server is a Cluster node but the settings are for a single Redis, or
 * if it has both a memory limit and an eviction policy, since it would then silently drop accepted uploads,
 * keys, and locks. Only warns if there is a policy but no limit, because eviction would start as soon as one
 * is set. Also warns if persistence is off, because a restart would lose accepted runs.
 */
async function checkServer(link: RedisLink): Promise<void> {
  const { redis, log } = link;
  const nodes = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const warnings = new Map<string, object>();
  for (const node of nodes) {
    const facts = factsOf(await link.ask(() => node.info()));
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
    info.split(/\r?\n/).flatMap((line): [string, string][] => {
      const [, name, value] = /^([^:]+):(.*)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, value ?? '']];
    }),
  );
}
