import { Cluster } from 'ioredis';
import { WaybillError } from '../../core/lib/errors.ts';
import type { RedisLink } from './link.ts';
import type { RedisClient } from './redis-client.ts';
import { defineScripts, scriptCaller } from './scripts.ts';

/** The time to wait for a replica, in milliseconds. It is shorter than the timeout of a command. */
const waitMs = 1_000;
/** The time in which a failed attempt is repeated, in milliseconds. */
const retryForMs = 2_000;
const retryPauseMs = 100;
/** After this time without any replica, runs are accepted without a confirmation, in milliseconds. */
const refuseForMs = 60_000;
/** How often replicas are asked then, in milliseconds. */
const askEveryMs = 10_000;
const hint = 'check the replicas: `redis-cli info replication` on the primary lists them';

/**
 * How long an accepted run waits for its confirmation before any host hands it over, in milliseconds. It is
 * longer than a confirmation takes.
 */
export const unconfirmedForMs = 10_000;

interface Call {
  runId: string;
  resolve: () => void;
  reject: (error: unknown) => void;
}

interface Answer {
  /** The runs that exist. */
  known: ReadonlySet<string>;
  isConfirmed: boolean;
}

/**
 * Confirms that an accepted run survives a failover. Redis answers before its replicas have a write, so a
 * failover can lose it. Behind Sentinels and in a Cluster, `confirm` waits until one replica has the run.
 *
 * `WAIT` covers the writes of its own connection and blocks that connection. Confirmations therefore have a
 * connection of their own. Each one writes a key: replicas receive writes in order, so a replica that has the
 * key has the run too. Calls made while a confirmation is in progress share the next one.
 */
export class ReplicaConfirmation {
  /** False for a single Redis, which has no failover. */
  readonly isNeeded: boolean;
  readonly #link: RedisLink;
  #client: RedisClient | undefined;
  #waiting: Call[] = [];
  #isBusy = false;
  /** False if the primary never had a replica, or none for so long that Redis has forgotten it. */
  #hasReplicas = true;
  /** Since when no replica confirms anything. null if one does. */
  #silentSince: number | null = null;
  #askAgainAt = -Infinity;

  constructor(link: RedisLink) {
    this.#link = link;
    const { sentinels = null, isCluster = false } = link.server;
    this.isNeeded = sentinels !== null || isCluster;
  }

  /**
   * Resolves once a replica has the run. Throws `queue_unavailable` if none confirms it in time. Once no
   * replica has confirmed anything for a minute, runs need no confirmation until a replica is back.
   */
  async confirm(runId: string): Promise<void> {
    if (!this.isNeeded) return;
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ runId, resolve, reject });
      void this.#work();
    });
  }

  /** Asks for replicas if they were silent. Called once per second. */
  check(): void {
    if (this.#silentSince !== null && this.#isAskDue()) void this.#work();
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    do await this.#confirmAll(this.#waiting.splice(0));
    while (this.#waiting.length > 0);
    this.#isBusy = false;
  }

  async #confirmAll(calls: readonly Call[]): Promise<void> {
    const runIds = calls.map(({ runId }) => runId);
    try {
      const client = (this.#client ??= this.#open());
      const { known, isConfirmed } = await this.#link.ask(() => this.#retried(client, runIds), client);
      for (const { runId, resolve, reject } of calls)
        if (isConfirmed && known.has(runId)) resolve();
        else reject(unconfirmed());
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  #open(): RedisClient {
    const client = this.#link.another();
    defineScripts(client, this.#link.root);
    return client;
  }

  /** Repeats attempts that fail, because ioredis follows redirections of single commands only. */
  async #retried(client: RedisClient, runIds: readonly string[]): Promise<Answer> {
    const { clock } = this.#link;
    const until = clock.monotonic() + retryForMs;
    for (;;)
      try {
        return await this.#attempt(client, runIds);
      } catch (error) {
        if (clock.monotonic() >= until) throw error;
        if (client instanceof Cluster) client.refreshSlotsCache();
        await clock.sleep(retryPauseMs);
      }
  }

  async #attempt(client: RedisClient, runIds: readonly string[]): Promise<Answer> {
    const pipeline = client.pipeline();
    void scriptCaller(pipeline, this.#link.root)('admission/confirm', {}, runIds);
    const isAsked = this.#hasReplicas && this.#isAskDue();
    if (isAsked) pipeline.wait(1, waitMs);
    const results = (await pipeline.exec()) ?? [];
    for (const [error] of results) if (error !== null) throw error;
    const [hasReplicas, ...known] = results[0]?.[1] as string[];
    const isFirstReplica = !this.#hasReplicas && hasReplicas === '1';
    this.#hasReplicas = hasReplicas === '1';
    if (isFirstReplica) return this.#attempt(client, runIds);
    return { known: new Set(known), isConfirmed: !isAsked || this.#isEnough(Number(results[1]?.[1])) };
  }

  /** Reports whether a run that this number of replicas has may be accepted. */
  #isEnough(replicas: number): boolean {
    const { clock, log } = this.#link;
    const now = clock.monotonic();
    if (replicas > 0 || !this.#hasReplicas) {
      if (this.#silentSince !== null && replicas > 0)
        log.info({}, 'a replica of redis confirms writes again');
      this.#silentSince = null;
      return true;
    }
    if (this.#silentSince === null)
      log.warn({ hint }, 'no replica of redis confirms writes; uploads are refused for a minute');
    this.#silentSince ??= now;
    if (now - this.#silentSince < refuseForMs) return false;
    if (this.#askAgainAt < this.#silentSince)
      log.warn({ hint }, 'no replica of redis confirms writes; a failover loses the uploads accepted now');
    this.#askAgainAt = now + askEveryMs;
    return true;
  }

  #isAskDue(): boolean {
    return this.#link.clock.monotonic() >= this.#askAgainAt;
  }
}

function unconfirmed(): WaybillError {
  return new WaybillError('queue_unavailable', 'no replica of Redis has confirmed the upload', { hint });
}
