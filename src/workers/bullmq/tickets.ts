import { Job, type Queue, type Worker } from 'bullmq';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { isDamage, plain, type RedisLink } from './link.ts';

/** A run's job in BullMQ. It has only the run's id, because the store has the run itself. */
export interface Ticket {
  run_id: string;
}

/** A pipeline's BullMQ queue and the worker that takes its jobs. */
export interface PipelineQueue {
  queue: Queue<Ticket>;
  worker: Worker<Ticket>;
}

export interface TicketsOptions {
  link: RedisLink;
  log: Log;
  /** How long and how many ended tickets BullMQ keeps, for dashboards. */
  keep: { age: number; count: number };
  keptEvents: number;
  /** Lifetime of the lock on a ticket, in milliseconds. */
  lockMs: number;
}

/** At most one ticket is active unless another program has added some. */
const maxActive = 100;

/** Every run id contains a period (`newRunId`). BullMQ's own key names do not. */
const runId = /^[A-Za-z0-9_-]+\.[A-Za-z0-9._-]{1,200}$/;

/** Reports whether a run could have this id. Ids in Redis may come from another program. */
export function isRunId(id: string): boolean {
  return runId.test(id);
}

/** Returns the error that the log and dashboards show for a ticket without a run. */
export function foreignTicket(): WaybillError {
  return new WaybillError('job_rejected', 'waybill has no run for a job in its queue in Redis', {
    hint: 'find out which program put the job there',
  });
}

/**
 * Takes tickets. Other programs that can write to Redis may change them, so waybill reads only a ticket's id.
 * If BullMQ cannot read the rest, the ticket is rewritten, and the store decides whether the id belongs to a
 * run. If the queue itself is damaged, its settings are written again.
 */
export class Tickets {
  readonly #options: TicketsOptions;
  readonly #link: RedisLink;

  constructor(options: TicketsOptions) {
    this.#options = options;
    this.#link = options.link;
  }

  /** Returns a ticket's options. */
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
   * ticket and retries.
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
   * Makes a BullMQ call about a queue. If Redis rejects the call, repairs the queue and retries. `undo` is
   * called between the two calls.
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
      // Redis or BullMQ could not read the ticket after locking it.
      const id = await this.#lockedBy(pipeline, token);
      if (id === null) throw error;
      if (isRunId(id)) await this.#rewrite(pipeline, id, token);
      return id;
    }
  }

  #jobOf({ worker }: PipelineQueue, id: string): Job<Ticket> {
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
    return Job.fromJSON<Ticket>(worker, { ...json, ...unused }, id);
  }

  /** Returns the ticket that the token has locked, or null if there is none. */
  async #lockedBy({ queue }: PipelineQueue, token: string): Promise<string | null> {
    const { redis } = this.#link;
    for (const id of await redis.lrange(queue.toKey('active'), 0, maxActive))
      if ((await redis.get(`${queue.toKey(id)}:lock`)) === token) return id;
    return null;
  }

  /** Replaces everything that Redis has about the ticket except its place in the queue. */
  async #rewrite({ queue }: PipelineQueue, id: string, token: string): Promise<void> {
    const key = queue.toKey(id);
    const data = JSON.stringify({ run_id: id });
    const fields = { name: 'publish', data, opts: '{}', timestamp: Date.now() };
    const { lockMs } = this.#options;
    await this.#link.redis.multi().del(key).hset(key, fields).set(`${key}:lock`, token, 'PX', lockMs).exec();
  }

  /** Removes a ticket. Does not delete its key, which may be one of BullMQ's own. */
  async #drop({ queue }: PipelineQueue, id: string): Promise<void> {
    await this.#link.redis
      .multi()
      .lrem(queue.toKey('active'), 0, id)
      .srem(queue.toKey('stalled'), id)
      .del(`${queue.toKey(id)}:lock`)
      .exec();
  }

  /** Rewrites the queue's settings. The id counter is not needed because no ticket uses it. */
  async #repairQueue({ queue }: PipelineQueue, error: Error): Promise<void> {
    const { log, keptEvents } = this.#options;
    log.warn({ pipeline_id: queue.name, reason: plain(error).message }, 'repairing a queue in Redis');
    const settings = { concurrency: 1, 'opts.maxLenEvents': keptEvents };
    await this.#link.redis.multi().hset(queue.toKey('meta'), settings).del(queue.toKey('id')).exec();
  }
}
