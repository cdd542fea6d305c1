import { Job, type Queue, type Worker } from 'bullmq';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { isDamage, plain, type RedisLink } from './link.ts';

/** A run's job in BullMQ. It only contains the run's id, because everything else is in the store. */
export interface Ticket {
  run_id: string;
}

/** A pipeline's BullMQ queue, and the worker that picks up its jobs. */
export interface PipelineQueue {
  queue: Queue<Ticket>;
  worker: Worker<Ticket>;
}

export interface TicketsOptions {
  link: RedisLink;
  log: Log;
  /** Limits the number and age of completed tickets, which BullMQ keeps for dashboards. */
  keep: { age: number; count: number };
  keptEvents: number;
  /** The lifetime of the lock on a ticket, in milliseconds. */
  lockMs: number;
}

/** Normally there is at most one active ticket, but another program may have added some. */
const maxActive = 100;

/** Run ids always contain a period (see `newRunId`), unlike the names of BullMQ's own keys. */
const runId = /^[A-Za-z0-9_-]+\.[A-Za-z0-9._-]{1,200}$/;

/** Checks whether this could be a run id. Ids in Redis may come from another program. */
export function isRunId(id: string): boolean {
  return runId.test(id);
}

/** Creates the error shown in the log and on dashboards for a ticket without a run. */
export function foreignTicket(): WaybillError {
  return new WaybillError('job_rejected', 'waybill has no run for a job in its queue in Redis', {
    hint: 'find out which program put the job there',
  });
}

/**
 * Picks up tickets from BullMQ. Since any program with access to Redis can change a ticket, waybill reads
 * only the id and ignores the rest. If BullMQ itself can't read the ticket, the ticket is rewritten, and the
 * store decides whether the id belongs to a run. If the queue is corrupted, its settings are rewritten as
 * well.
 */
export class Tickets {
  readonly #options: TicketsOptions;
  readonly #link: RedisLink;

  constructor(options: TicketsOptions) {
    this.#options = options;
    this.#link = options.link;
  }

  /** Returns the BullMQ options for a ticket. */
  optionsOf(runId: string) {
    const { keep } = this.#options;
    return { jobId: runId, attempts: 1, removeOnComplete: keep, removeOnFail: keep };
  }

  /** Locks the next ticket. Resolves with undefined if none is waiting or one is already active. */
  next(pipeline: PipelineQueue, token: string): Promise<Job<Ticket> | undefined> {
    return this.#link.ask(async () => {
      const id = await this.#repairing(pipeline, () => this.#take(pipeline, token));
      return id === undefined ? undefined : this.#jobOf(pipeline, id);
    });
  }

  /**
   * Makes a BullMQ call about a ticket that this process has locked. If Redis rejects the call, repairs the
   * ticket and tries again.
   */
  async settle(
    pipeline: PipelineQueue,
    job: Job<Ticket>,
    token: string,
    work: () => Promise<void>,
  ): Promise<void> {
    await this.repaired(pipeline, work, () => this.#rewrite(pipeline, job.id ?? '', token));
  }

  /** Marks a ticket without a run as failed, or removes it if its id cannot be a run id. */
  reject(pipeline: PipelineQueue, job: Job<Ticket>, token: string): Promise<void> {
    return this.#link.ask(async () => {
      const { id = '' } = job;
      if (!isRunId(id)) return this.#drop(pipeline, id);
      await this.#rewrite(pipeline, id, token);
      const { code, message } = foreignTicket();
      await job.moveToFailed(new Error(`${code}: ${message}`), token, false);
    });
  }

  /**
   * Makes a BullMQ call about a queue. If Redis rejects the call, repairs the queue and tries again. In
   * between, `undo` is called to revert the first call.
   */
  repaired<T>(pipeline: PipelineQueue, work: () => Promise<T>, undo?: () => Promise<void>): Promise<T> {
    return this.#link.ask(() => this.#repairing(pipeline, work, undo));
  }

  async #repairing<T>(
    pipeline: PipelineQueue,
    work: () => Promise<T>,
    undo?: () => Promise<void>,
  ): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isDamage(error)) throw error;
      await this.#repairQueue(pipeline, error);
      await undo?.();
      return work();
    }
  }

  /** Locks the next ticket and returns its id, or undefined if there is none. */
  async #take(pipeline: PipelineQueue, token: string): Promise<string | undefined> {
    try {
      const [, id] = (await pipeline.worker.backend.moveToActive(token)) as unknown[];
      return typeof id === 'string' && id !== '' ? id : undefined;
    } catch (error) {
      // BullMQ locked the ticket, but then either it or Redis couldn't read it.
      const id = await this.#lockedBy(pipeline, token);
      if (id === null) throw error;
      if (isRunId(id)) await this.#rewrite(pipeline, id, token);
      return id;
    }
  }

  /**
   * Creates the job of a ticket. It belongs to the queue, because calls of a worker's job wait until the
   * worker's second connection is up. That connection serves no purpose here, and may never come up.
   */
  #jobOf({ queue }: PipelineQueue, id: string): Job<Ticket> {
    const json = { id, name: 'publish', data: JSON.stringify({ run_id: id }), opts: this.optionsOf(id) };
    const unused = {
      progress: 0,
      attemptsMade: 0,
      attemptsStarted: 0,
      stalledCounter: 0,
      timestamp: 0,
      failedReason: '',
      returnvalue: '',
      stacktrace: '[]',
    };
    return Job.fromJSON<Ticket>(queue, { ...json, ...unused }, id);
  }

  /** Returns the ticket that the token has locked, or null if there is none. */
  async #lockedBy({ queue }: PipelineQueue, token: string): Promise<string | null> {
    const { redis } = this.#link;
    for (const id of await redis.lrange(queue.toKey('active'), 0, maxActive))
      if ((await redis.get(`${queue.toKey(id)}:lock`)) === token) return id;
    return null;
  }

  /** Overwrites everything about the ticket except for its position in the queue. */
  async #rewrite({ queue }: PipelineQueue, id: string, token: string): Promise<void> {
    const key = queue.toKey(id);
    const data = JSON.stringify({ run_id: id });
    const fields = { name: 'publish', data, opts: '{}', timestamp: Date.now() };
    const { lockMs } = this.#options;
    await this.#link.redis.multi().del(key).hset(key, fields).set(`${key}:lock`, token, 'PX', lockMs).exec();
  }

  /** Removes a ticket. Its key isn't deleted, because it might be one of BullMQ's own. */
  async #drop({ queue }: PipelineQueue, id: string): Promise<void> {
    await this.#link.redis
      .multi()
      .lrem(queue.toKey('active'), 0, id)
      .srem(queue.toKey('stalled'), id)
      .del(`${queue.toKey(id)}:lock`)
      .exec();
  }

  /** Rewrites the queue's settings, except for the id counter, which our tickets don't use. */
  async #repairQueue({ queue }: PipelineQueue, error: Error): Promise<void> {
    const { log, keptEvents } = this.#options;
    log.warn({ pipeline_id: queue.name, reason: plain(error).message }, 'repairing a queue in Redis');
    const settings = { concurrency: 1, 'opts.maxLenEvents': keptEvents };
    await this.#link.redis.multi().hset(queue.toKey('meta'), settings).del(queue.toKey('id')).exec();
  }
}
