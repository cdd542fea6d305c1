import { ErrorCode, Job, Queue, Worker } from 'bullmq';
import type { Clock } from '../../core/lib/clock.ts';
import { publicError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { RunRecord } from '../queue/run-record.ts';
import type { RedisLink } from './link.ts';
import { ticketRoot } from './redis-client.ts';
import { isDamage, safeError } from './redis-errors.ts';
import type { RetryDelay } from './run-claims.ts';

/** The data of a ticket. Everything else about the run is in the store. */
interface TicketData {
  run_id: string;
}

export interface TicketQueueOptions {
  link: RedisLink;
  clock: Clock;
  log: Log;
  retentionMs: number;
  /** A worker that does not report for this many milliseconds is considered dead. */
  workerTimeoutMs: number;
}

/** The error codes BullMQ returns if another worker holds the lock, or if the job is not active. */
const lost: ReadonlySet<unknown> = new Set([
  ErrorCode.JobNotExist,
  ErrorCode.JobLockNotExist,
  ErrorCode.JobNotInState,
  ErrorCode.JobLockMismatch,
]);
const keptForBoard = 1000;
const keptEvents = 1000;
/** Normally there is at most one active ticket, but another program may have added some. */
const maxActive = 100;

/** Run ids always contain a period (see `newRunId`), unlike the names of BullMQ's own keys. */
const runIdForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9._-]{1,200}$/;

/** Checks whether this could be a run id. Ids in Redis may come from another program. */
export function isRunId(id: string): boolean {
  return runIdForm.test(id);
}

/** Creates the error shown in the log and on dashboards for a ticket without a run. */
export function foreignTicketError(): WaybillError {
  return new WaybillError('job_rejected', 'waybill has no run for a job in its queue in Redis', {
    hint: 'find out which program put the job there',
  });
}

/**
 * A pipeline's BullMQ queue, with one job per run, its ticket. It has at most one active ticket, no matter
 * how many hosts there are.
 *
 * Since any program with access to Redis can change a ticket, waybill reads only its id and ignores the rest.
 * If BullMQ itself cannot read the ticket, the ticket is rewritten, and the store decides whether the id
 * belongs to a run. If the queue is corrupted, its settings are rewritten as well.
 */
export class TicketQueue {
  readonly pipelineId: string;
  readonly options: TicketQueueOptions;
  readonly queue: Queue<TicketData>;
  readonly #worker: Worker<TicketData>;
  readonly #link: RedisLink;

  private constructor(pipelineId: string, options: TicketQueueOptions) {
    const { link, workerTimeoutMs } = options;
    this.pipelineId = pipelineId;
    this.options = options;
    this.#link = link;
    const shared = { connection: link.redis, prefix: ticketRoot(link.server, pipelineId) };
    this.queue = new Queue<TicketData>(pipelineId, {
      ...shared,
      streams: { events: { maxLen: keptEvents } },
    });
    this.#worker = new Worker<TicketData>(pipelineId, null, {
      ...shared,
      lockDuration: workerTimeoutMs,
      // The minimum time between two checks across all hosts. Each host tries more often than that.
      stalledInterval: Math.ceil(workerTimeoutMs / 4),
      // The limit on restarts is in `attempt.ts`.
      maxStalledCount: 1_000_000,
      autorun: false,
    });
    this.queue.on('error', this.#logError);
    this.#worker.on('error', this.#logError);
  }

  /** Throws `queue_unavailable`. */
  static async open(pipelineId: string, options: TicketQueueOptions): Promise<TicketQueue> {
    const opened = new TicketQueue(pipelineId, options);
    try {
      await options.link.ask(() => opened.queue.setGlobalConcurrency(1));
      return opened;
    } catch (error) {
      await opened.close().catch(opened.#logError);
      throw error;
    }
  }

  /** Adds the tickets of these runs, in order. A ticket that exists is not added twice. */
  async add(runIds: readonly string[]): Promise<void> {
    const ids = runIds.filter(isRunId);
    const jobs = ids.map((id) => ({ name: 'publish', data: { run_id: id }, opts: this.#optionsOf(id) }));
    await this.repaired(
      async () => {
        if (this.#link.server.isCluster === true) await Promise.all(ids.map((id) => this.#removeEnded(id)));
        await this.queue.addBulk(jobs);
      },
      // Redis may have stored the ticket itself, but not its place in the queue. Adding it again would then
      // do nothing.
      async () => {
        await Promise.all(ids.map((id) => this.remove(id)));
      },
    );
  }

  /** Locks the next ticket. Resolves with undefined if none is waiting or one is already active. */
  async next(token: string): Promise<Ticket | undefined> {
    const id = await this.repaired(() => this.#take(token));
    return id === undefined ? undefined : new Ticket(this, this.#jobOf(id), token);
  }

  /**
   * Removes the ticket of a run that is never going to start. On failure, the ticket is dropped once a worker
   * picks it up.
   */
  async remove(runId: string): Promise<void> {
    await this.queue.remove(runId).catch(this.#logError);
  }

  /** Makes a postponed ticket available immediately. */
  async promote(runId: string): Promise<void> {
    // BullMQ only promotes delayed jobs. Any other job is already waiting.
    await this.#link.ask(() => unlessLockLost(this.queue.backend.promote(runId)));
  }

  /** Puts dead workers' tickets back at the head of the queue, and resolves with their ids. */
  rescue(): Promise<string[]> {
    return this.repaired(() => this.#worker.backend.moveStalledJobsToWait());
  }

  async close(): Promise<void> {
    await this.#worker.close(true).finally(() => this.queue.close());
  }

  /**
   * Makes a BullMQ call. If Redis rejects it because of damage, repairs the queue and tries again. In
   * between, `repair` is called to revert the first call or to repair the ticket.
   */
  repaired<T>(work: () => Promise<T>, repair?: () => Promise<void>): Promise<T> {
    return this.#link.ask(async () => {
      try {
        return await work();
      } catch (error) {
        if (!isDamage(error)) throw error;
        await this.#repair(error);
        await repair?.();
        return work();
      }
    });
  }

  /** Overwrites everything about a ticket except for its position in the queue. */
  async rewrite(id: string, token: string): Promise<void> {
    const key = this.queue.toKey(id);
    const data = JSON.stringify({ run_id: id });
    const fields = { name: 'publish', data, opts: '{}', timestamp: this.options.clock.now().getTime() };
    const lockMs = this.options.workerTimeoutMs;
    await this.#link.redis.multi().del(key).hset(key, fields).set(`${key}:lock`, token, 'PX', lockMs).exec();
  }

  /** Removes a locked ticket. Its key is not deleted, because it might be one of BullMQ's own. */
  async drop(id: string): Promise<void> {
    await this.#link.redis
      .multi()
      .lrem(this.queue.toKey('active'), 0, id)
      .srem(this.queue.toKey('stalled'), id)
      .del(`${this.queue.toKey(id)}:lock`)
      .exec();
  }

  #optionsOf(runId: string) {
    const keep = { age: Math.ceil(this.options.retentionMs / 1000), count: keptForBoard };
    return { jobId: runId, attempts: 1, removeOnComplete: keep, removeOnFail: keep };
  }

  /** Locks the next ticket and returns its id, or undefined if there is none. */
  async #take(token: string): Promise<string | undefined> {
    try {
      const [, id] = (await this.#worker.backend.moveToActive(token)) as unknown[];
      return typeof id === 'string' && id !== '' ? id : undefined;
    } catch (error) {
      // BullMQ locked the ticket, but then either it or Redis could not read it.
      const id = await this.#lockedBy(token);
      if (id === null) throw error;
      if (isRunId(id)) await this.rewrite(id, token);
      return id;
    }
  }

  /**
   * Creates the job of a ticket. It belongs to the queue, because calls of a worker's job wait until the
   * worker's second connection is up. That connection serves no purpose here, and may never come up.
   */
  #jobOf(id: string): Job<TicketData> {
    const json = { id, name: 'publish', data: JSON.stringify({ run_id: id }), opts: this.#optionsOf(id) };
    const unused = { progress: 0, timestamp: 0, failedReason: '', returnvalue: '', stacktrace: '[]' };
    const counts = { attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 };
    return Job.fromJSON<TicketData>(this.queue, { ...json, ...unused, ...counts }, id);
  }

  /** Returns the ticket that the token has locked, or null if there is none. */
  async #lockedBy(token: string): Promise<string | null> {
    const { redis } = this.#link;
    for (const id of await redis.lrange(this.queue.toKey('active'), 0, maxActive))
      if ((await redis.get(`${this.queue.toKey(id)}:lock`)) === token) return id;
    return null;
  }

  /** Removes the ticket of an unfinished run if it has ended. The store has lost its end in a failover. */
  async #removeEnded(runId: string): Promise<void> {
    const state = await this.queue.getJobState(runId);
    if (state === 'completed' || state === 'failed') await this.queue.remove(runId);
  }

  /** Rewrites the queue's settings, except for the id counter, which our tickets do not use. */
  async #repair(error: Error): Promise<void> {
    const reason = safeError(error).message;
    this.options.log.warn({ pipeline_id: this.pipelineId, reason }, 'repairing a queue in Redis');
    const settings = { concurrency: 1, 'opts.maxLenEvents': keptEvents };
    const { queue } = this;
    await this.#link.redis.multi().hset(queue.toKey('meta'), settings).del(queue.toKey('id')).exec();
  }

  readonly #logError = (error: Error): void => this.options.log.debug({ err: safeError(error) }, 'bullmq');
}

/** A ticket that this process has locked with `token`. No method does anything if the lock is lost. */
export class Ticket {
  readonly runId: string;
  readonly pipelineId: string;
  readonly token: string;
  readonly #queue: TicketQueue;
  readonly #job: Job<TicketData>;

  constructor(queue: TicketQueue, job: Job<TicketData>, token: string) {
    this.runId = job.id ?? '';
    this.pipelineId = queue.pipelineId;
    this.token = token;
    this.#queue = queue;
    this.#job = job;
  }

  /** Extends the lock. */
  async hold(): Promise<void> {
    const { link, workerTimeoutMs } = this.#queue.options;
    await link.ask(() => this.#job.extendLock(this.token, workerTimeoutMs));
  }

  /** Marks the ticket as done. */
  end(record: RunRecord | null): Promise<void> {
    return this.#settle(() =>
      record?.status === 'failed'
        ? this.#job.moveToFailed(new Error(failureOf(record)), this.token, false)
        : this.#job.moveToCompleted(null, this.token, false),
    );
  }

  /** Marks a ticket without a run as failed, or removes it if its id cannot be a run id. */
  async reject(): Promise<void> {
    await this.#queue.options.link.ask(async () => {
      if (!isRunId(this.runId)) return this.#queue.drop(this.runId);
      await this.#queue.rewrite(this.runId, this.token);
      const { code, message } = foreignTicketError();
      await unlessLockLost(this.#job.moveToFailed(new Error(`${code}: ${message}`), this.token, false));
    });
  }

  /** Puts the ticket back at the head of its queue. */
  requeue(): Promise<void> {
    return this.#settle(() => this.#job.moveToWait(this.token));
  }

  /**
   * Keeps workers from picking up the ticket for `pauseMs` milliseconds. With `blocks`, it waits at the head
   * of the queue, ahead of the pipeline's other tickets (see `RunStore.mayTake`).
   */
  postpone({ pauseMs, blocks }: RetryDelay): Promise<void> {
    if (blocks) return this.requeue();
    const dueAt = this.#queue.options.clock.now().getTime() + pauseMs;
    return this.#settle(() => this.#job.moveToDelayed(dueAt, this.token));
  }

  #settle(work: () => Promise<unknown>): Promise<void> {
    return this.#queue.repaired(
      () => unlessLockLost(work()),
      () => this.#queue.rewrite(this.runId, this.token),
    );
  }
}

/** Ignores the error BullMQ returns if another worker holds the lock or the job is not active. */
async function unlessLockLost(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Error) || !lost.has(Number((error as { code?: unknown }).code))) throw error;
  }
}

function failureOf({ error, destinations }: RunRecord): string {
  const first = error ?? destinations.find((destination) => destination.error !== null)?.error;
  if (first == null) return 'failed';
  const { code, message } = publicError(first);
  return `${code}: ${message}`;
}
