import { ErrorCode, type Job, Queue, Worker } from 'bullmq';
import pMap from 'p-map';
import type { Clock } from '../../core/lib/clock.ts';
import { publicError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { plain, type RedisLink } from './link.ts';
import { ticketRoot } from './redis-client.ts';
import type { RunStore } from './run-store.ts';
import { isRunId, type PipelineQueue, type Ticket, Tickets } from './tickets.ts';

export interface PipelineQueuesOptions {
  link: RedisLink;
  store: RunStore;
  clock: Clock;
  log: Log;
  prefix: string;
  pipelineIds: readonly string[];
  retentionMs: number;
  /** A worker that doesn't report for this many milliseconds is considered dead. */
  workerTimeoutMs: number;
}

/**
 * Limits how many queues are opened at once. Opening hundreds of them would keep the event loop from reading
 * replies, so calls would time out and Redis would seem unreachable.
 */
const maxConcurrentOpens = 8;
const addWithinMs = 10_000;
/** How often the tickets of all unfinished runs are added again in a Cluster, in milliseconds. */
const reopenEveryMs = 30_000;
/** The error codes BullMQ returns if another worker holds the lock, or if the job isn't active. */
const lost: ReadonlySet<number> = new Set([
  ErrorCode.JobNotExist,
  ErrorCode.JobLockNotExist,
  ErrorCode.JobNotInState,
  ErrorCode.JobLockMismatch,
]);
const keptForBoard = 1000;
const keptEvents = 1000;

/**
 * The BullMQ queues, one per pipeline. Each has at most one active job, no matter how many hosts there are.
 */
export class PipelineQueues {
  readonly #options: PipelineQueuesOptions;
  readonly #tickets: Tickets;
  readonly #pipelines = new Map<string, PipelineQueue>();
  /** Counts how often the connection to a node came up or went down. Every failover changes it. */
  #disruptions = 0;
  #reopened = { at: -Infinity, disruptions: 0 };

  private constructor(options: PipelineQueuesOptions) {
    const keep = { age: Math.ceil(options.retentionMs / 1000), count: keptForBoard };
    this.#options = options;
    for (const event of ['ready', 'close', '+node', '-node'])
      options.link.redis.on(event, () => (this.#disruptions += 1));
    this.#tickets = new Tickets({ ...options, keep, keptEvents, lockMs: options.workerTimeoutMs });
  }

  /** Opens a queue for each pipeline. Throws `queue_unavailable`. */
  static async open(options: PipelineQueuesOptions): Promise<PipelineQueues> {
    const pipelines = new PipelineQueues(options);
    await pipelines.#open(options.pipelineIds);
    return pipelines;
  }

  get ids(): Iterable<string> {
    return this.#pipelines.keys();
  }

  /** Keyed by pipeline. */
  get queues(): ReadonlyMap<string, Queue> {
    return new Map([...this.#pipelines].map(([id, { queue }]) => [id, queue]));
  }

  /**
   * Opens queues for the pipelines that don't have one yet. Throws `queue_unavailable` if Redis is
   * unreachable or too slow.
   */
  async add(pipelineIds: readonly string[]): Promise<void> {
    const { link, clock } = this.#options;
    // BullMQ would wait for a connection forever, so check first.
    await link.ask(() => link.redis.ping());
    const inTime = new AbortController();
    const late = clock.sleep(addWithinMs, inTime.signal).then(
      () => {
        throw new WaybillError('queue_unavailable', 'the queue in Redis did not answer in time', {
          hint: 'try again once Redis is back',
        });
      },
      () => undefined,
    );
    try {
      await Promise.race([this.#open(pipelineIds), late]);
    } finally {
      inTime.abort();
    }
  }

  /**
   * Moves accepted runs from the outbox to the pipeline's queue, in the order in which they were accepted.
   * It's idempotent, and several hosts can safely call it at the same time. `confirmed` is a run that a
   * replica has just confirmed.
   */
  async handOver(pipelineId: string, confirmed?: string): Promise<void> {
    const pipeline = this.#pipelines.get(pipelineId);
    if (pipeline === undefined) return;
    const { store } = this.#options;
    await this.reopen();
    // Hosts read the outbox before they add anything, and the runs come in ascending order. If a run has
    // disappeared from the outbox in the meantime, another host has already queued it.
    const runIds = await store.outbox(pipelineId, confirmed);
    if (runIds.length === 0) return;
    const jobs = runIds.filter(isRunId).map((runId) => ({
      name: 'publish',
      data: { run_id: runId },
      opts: this.#tickets.optionsOf(runId),
    }));
    await this.#tickets.repaired(
      pipeline,
      async () => {
        if (this.#isCluster) await this.#removeEnded(pipeline, runIds);
        await pipeline.queue.addBulk(jobs);
      },
      // Redis may have stored the ticket itself, but not its place in the queue. Adding it again would then
      // do nothing.
      async () => {
        await Promise.all(jobs.map(({ data }) => pipeline.queue.remove(data.run_id).catch(this.#logError)));
      },
    );
    await store.handedOver(pipelineId, runIds);
  }

  /**
   * Puts all unfinished runs back into the outboxes if a failover may have lost their tickets. Every host
   * does this before it adds a ticket, so no newer ticket gets ahead of a lost one. A ticket that still
   * exists is not added twice. Only a Cluster keeps runs and tickets on different nodes. Anywhere else, a
   * failover that loses a ticket also returns its run to the outbox.
   */
  async reopen(): Promise<void> {
    const { store, clock } = this.#options;
    if (!this.#isCluster) return;
    const [at, disruptions] = [clock.monotonic(), this.#disruptions];
    if (disruptions === this.#reopened.disruptions && at - this.#reopened.at < reopenEveryMs) return;
    await store.reopen([...this.ids]);
    this.#reopened = { at, disruptions };
  }

  /**
   * Locks the pipeline's next job and resolves with it, or with undefined if none is waiting or one is
   * already active.
   */
  async next(pipelineId: string, token: string): Promise<Job<Ticket> | undefined> {
    const pipeline = this.#pipelines.get(pipelineId);
    return pipeline === undefined ? undefined : this.#tickets.next(pipeline, token);
  }

  /** Puts dead workers' jobs back at the head of their queues. */
  async rescue(): Promise<void> {
    for (const [pipelineId, pipeline] of this.#pipelines) {
      const stalled = await this.#tickets.repaired(pipeline, () =>
        pipeline.worker.backend.moveStalledJobsToWait(),
      );
      for (const runId of stalled)
        this.#options.log.warn(
          { run_id: runId, pipeline_id: pipelineId },
          'the worker of this run has ended; the run waits for another worker',
        );
    }
  }

  /** Extends the lock on a job, provided that this token still holds it. */
  async hold(job: Job<Ticket>, token: string): Promise<void> {
    const { link, workerTimeoutMs } = this.#options;
    await link.ask(() => job.extendLock(token, workerTimeoutMs));
  }

  /** Marks the job as done in BullMQ. Does nothing if the token no longer holds the lock. */
  end(job: Job<Ticket>, token: string, record: RunRecord | null): Promise<void> {
    return this.#settle(job, token, () =>
      record?.status === 'failed'
        ? job.moveToFailed(new Error(failureOf(record)), token, false)
        : job.moveToCompleted(null, token, false),
    );
  }

  /**
   * Marks a job as failed because the store has no run for it, or removes it if its id can't be a run id.
   * Does nothing if the lock is lost.
   */
  async reject(job: Job<Ticket>, token: string): Promise<void> {
    const pipeline = this.#pipelines.get(job.queueName);
    if (pipeline !== undefined) await unlessLockLost(this.#tickets.reject(pipeline, job, token));
  }

  /**
   * Removes the ticket of a run that is never going to start. On failure, the ticket is dropped once a worker
   * picks it up.
   */
  async withdraw(pipelineId: string, runId: string): Promise<void> {
    await this.#pipelines.get(pipelineId)?.queue.remove(runId).catch(this.#logError);
  }

  /** Puts the job back at the head of its queue. */
  requeue(job: Job<Ticket>, token: string): Promise<void> {
    return this.#settle(job, token, () => job.moveToWait(token));
  }

  /**
   * Keeps workers from picking up the job for `pauseMs` milliseconds. With `blocks`, it waits at the head of
   * the queue, ahead of the pipeline's other jobs (see `RunStore.mayTake`).
   */
  postpone(
    job: Job<Ticket>,
    token: string,
    { pauseMs, blocks }: { pauseMs: number; blocks: boolean },
  ): Promise<void> {
    const dueAt = this.#options.clock.now().getTime() + pauseMs;
    return this.#settle(job, token, () => (blocks ? job.moveToWait(token) : job.moveToDelayed(dueAt, token)));
  }

  /** Makes a postponed job available immediately. */
  async promote(pipelineId: string, runId: string): Promise<void> {
    // BullMQ only promotes delayed jobs. Any other job is already waiting.
    await this.#options.link.ask(() =>
      unlessLockLost(this.#pipelines.get(pipelineId)?.queue.backend.promote(runId)),
    );
  }

  async close(): Promise<void> {
    const pipelines = [...this.#pipelines.values()];
    await Promise.all(pipelines.map(({ worker }) => worker.close(true)));
    await Promise.all(pipelines.map(({ queue }) => queue.close()));
  }

  get #isCluster(): boolean {
    return this.#options.link.server.isCluster === true;
  }

  /**
   * Removes the ended tickets of unfinished runs, so that they can be added again. The store has lost the
   * ends of these runs in a failover.
   */
  async #removeEnded({ queue }: PipelineQueue, runIds: readonly string[]): Promise<void> {
    await Promise.all(
      runIds.filter(isRunId).map(async (runId) => {
        const state = await queue.getJobState(runId);
        if (state === 'completed' || state === 'failed') await queue.remove(runId);
      }),
    );
  }

  async #open(pipelineIds: readonly string[]): Promise<void> {
    const missing = pipelineIds.filter((id) => !this.#pipelines.has(id));
    await pMap(missing, (id) => this.#openOne(id), { concurrency: maxConcurrentOpens });
  }

  async #openOne(id: string): Promise<void> {
    const { link, workerTimeoutMs } = this.#options;
    const shared = { connection: link.redis, prefix: ticketRoot(this.#options.prefix, id, link.server) };
    const queue = new Queue<Ticket>(id, { ...shared, streams: { events: { maxLen: keptEvents } } });
    const worker = new Worker<Ticket>(id, null, {
      ...shared,
      lockDuration: workerTimeoutMs,
      // The minimum time between two checks across all hosts. Each host tries more often than that.
      stalledInterval: Math.ceil(workerTimeoutMs / 4),
      // The limit on restarts is in `attempt.ts`.
      maxStalledCount: 1_000_000,
      autorun: false,
    });
    queue.on('error', this.#logError);
    worker.on('error', this.#logError);
    try {
      await link.ask(() => queue.setGlobalConcurrency(1));
    } catch (error) {
      await Promise.all([worker.close(true), queue.close()]).catch(this.#logError);
      throw error;
    }
    this.#pipelines.set(id, { queue, worker });
  }

  /** Makes a BullMQ call about a job, provided that `token` still holds its lock. */
  async #settle(job: Job<Ticket>, token: string, work: () => Promise<unknown>): Promise<void> {
    const pipeline = this.#pipelines.get(job.queueName);
    if (pipeline !== undefined)
      await this.#tickets.settle(pipeline, job, token, () => unlessLockLost(work()));
  }

  /** BullMQ shares our connection and doesn't close it. Its errors come from calls, which reject as well. */
  readonly #logError = (error: Error): void => this.#options.log.debug({ err: plain(error) }, 'bullmq');
}

/** Ignores the error BullMQ returns if another worker holds the lock or the job isn't active. */
async function unlessLockLost(work: Promise<unknown> | undefined): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Error) || !lost.has(Number((error as { code?: unknown }).code))) throw error;
  }
}

function failureOf({ error, destinations }: RunRecord): string {
  const first = error ?? destinations.find((destination) => destination.error !== null)?.error;
  if (first === undefined || first === null) return 'failed';
  const { code, message } = publicError(first);
  return `${code}: ${message}`;
}
