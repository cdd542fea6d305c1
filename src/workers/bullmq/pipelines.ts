import { ErrorCode, type Job, Queue, Worker } from 'bullmq';
import pMap from 'p-map';
import type { Clock } from '../../core/lib/clock.ts';
import { publicError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { plain, type RedisLink } from './link.ts';
import { ticketRoot } from './redis-client.ts';
import type { RunStore } from './run-store.ts';
import { isRunId, type Line, type Ticket, ticketsOf } from './tickets.ts';

/**
 * BullMQ's queues, one for each pipeline. Each has one active job at a time, whatever the number of hosts.
 */
export interface PipelineQueues {
  queues: ReadonlyMap<string, Queue>;
  /** Opens the queues of pipelines that have none yet. Throws `queue_unavailable`. */
  add(pipelineIds: readonly string[]): Promise<void>;
  /**
   * Moves accepted runs from the outbox into the pipeline's queue, in the order of acceptance. Idempotent,
   * and safe if several hosts call it concurrently.
   */
  handOver(pipelineId: string): Promise<void>;
  /** Locks the pipeline's next job and resolves with it; undefined if no job is waiting or one is active. */
  next(pipelineId: string, token: string): Promise<Job<Ticket> | undefined>;
  /** Returns the jobs of dead workers to the heads of their queues. */
  rescue(): Promise<void>;
  /** Extends the lock on a job if the token still holds it. */
  hold(job: Job<Ticket>, token: string): Promise<void>;
  /** Ends the job in BullMQ. Does nothing if the token no longer holds the job's lock. */
  end(job: Job<Ticket>, token: string, record: RunRecord | null): Promise<void>;
  /**
   * Ends a job for which the store has no run as failed, or removes it if no run can have its id. Does
   * nothing if the lock is lost.
   */
  reject(job: Job<Ticket>, token: string): Promise<void>;
  /**
   * Removes the ticket of a run that never begins. A ticket that cannot be removed is ended when a worker
   * takes it.
   */
  withdraw(pipelineId: string, runId: string): Promise<void>;
  /** Returns the job to the head of its queue. */
  giveBack(job: Job<Ticket>, token: string): Promise<void>;
  /**
   * Keeps the job from being taken for `pauseMs` milliseconds. With `blocks` it waits at the head of its
   * queue and blocks the other jobs (`RunStore.mayTake`).
   */
  postpone(job: Job<Ticket>, token: string, wait: { pauseMs: number; blocks: boolean }): Promise<void>;
  /** Makes a postponed job available now. */
  promote(pipelineId: string, runId: string): Promise<void>;
  close(): Promise<void>;
}

export interface PipelineQueuesOptions {
  link: RedisLink;
  store: RunStore;
  clock: Clock;
  log: Log;
  prefix: string;
  pipelineIds: readonly string[];
  retentionMs: number;
  /** A worker that is silent for this many milliseconds counts as dead. */
  workerTimeoutMs: number;
}

/**
 * Opening hundreds of queues at the same time would keep the event loop from reading answers. Calls would
 * time out, and Redis would seem unreachable.
 */
const openedAtOnce = 8;
/** BullMQ's answers if the lock belongs to another worker or the job is not active. */
const lost: ReadonlySet<number> = new Set([
  ErrorCode.JobNotExist,
  ErrorCode.JobLockNotExist,
  ErrorCode.JobNotInState,
  ErrorCode.JobLockMismatch,
]);
const keptForBoard = 1000;
const keptEvents = 1000;

export async function pipelineQueues(options: PipelineQueuesOptions): Promise<PipelineQueues> {
  const { link, store, clock, log, workerTimeoutMs } = options;
  // BullMQ shares the connection and does not close it. Its errors come from calls, which also reject.
  const quiet = (error: Error): void => log.debug({ err: plain(error) }, 'bullmq');
  const lines = new Map<string, Line>();
  const queues = new Map<string, Queue<Ticket>>();
  const keep = { age: Math.ceil(options.retentionMs / 1000), count: keptForBoard };
  const tickets = ticketsOf({ ...options, keep, keptEvents, lockMs: workerTimeoutMs });
  const open = async (id: string): Promise<void> => {
    const prefix = ticketRoot(options.prefix, id, link.server);
    const queue = new Queue<Ticket>(id, {
      connection: link.redis,
      prefix,
      streams: { events: { maxLen: keptEvents } },
    });
    const worker = new Worker<Ticket>(id, null, {
      connection: link.redis,
      prefix,
      lockDuration: workerTimeoutMs,
      // The minimum time between two checks by any host; each host checks more often.
      stalledInterval: Math.ceil(workerTimeoutMs / 4),
      // `attempt.ts` limits how often a run is restarted.
      maxStalledCount: 1_000_000,
      autorun: false,
    });
    queue.on('error', quiet);
    worker.on('error', quiet);
    try {
      await link.ask(() => queue.setGlobalConcurrency(1));
    } catch (error) {
      await Promise.all([worker.close(true), queue.close()]).catch(quiet);
      throw error;
    }
    queues.set(id, queue);
    lines.set(id, { queue, worker });
  };
  const add = async (pipelineIds: readonly string[]): Promise<void> => {
    const missing = pipelineIds.filter((id) => !queues.has(id));
    await pMap(missing, open, { concurrency: openedAtOnce });
  };
  await add(options.pipelineIds);

  const ended = async (work: Promise<unknown> | undefined): Promise<void> => {
    try {
      await work;
    } catch (error) {
      if (!(error instanceof Error) || !lost.has(Number((error as { code?: unknown }).code))) throw error;
    }
  };
  /** Makes a call about a job whose lock `token` may hold. */
  const settle = async (job: Job<Ticket>, token: string, work: () => Promise<unknown>): Promise<void> => {
    const line = lines.get(job.queueName);
    if (line !== undefined) await tickets.settle(line, job, token, () => ended(work()));
  };
  const handOver = async (line: Line, pipelineId: string): Promise<void> => {
    // Ascending order, and each host reads before it adds. A run that left the outbox in the meantime is
    // already in the queue.
    const runIds = await store.outbox(pipelineId);
    if (runIds.length === 0) return;
    const jobs = runIds.filter(isRunId).map((runId) => ({
      name: 'publish',
      data: { run_id: runId },
      opts: tickets.optionsOf(runId),
    }));
    await tickets.repaired(
      line,
      () => line.queue.addBulk(jobs),
      // Redis may have stored a ticket without its place in the queue, and would not add it a second time.
      async () => {
        await Promise.all(jobs.map(({ data }) => line.queue.remove(data.run_id).catch(quiet)));
      },
    );
    await store.handedOver(pipelineId, runIds);
  };
  return {
    queues,
    add,
    handOver: async (pipelineId) => {
      const line = lines.get(pipelineId);
      if (line !== undefined) await handOver(line, pipelineId);
    },
    next: async (pipelineId, token) => {
      const line = lines.get(pipelineId);
      return line === undefined ? undefined : tickets.next(line, token);
    },
    rescue: async () => {
      for (const [pipelineId, line] of lines) {
        const stalled = await tickets.repaired(line, () => line.worker.backend.moveStalledJobsToWait());
        for (const runId of stalled)
          log.warn(
            { run_id: runId, pipeline_id: pipelineId },
            'the worker of this run is gone; it waits for another',
          );
      }
    },
    hold: async (job, token) => {
      await link.ask(() => job.extendLock(token, workerTimeoutMs));
    },
    end: (job, token, record) =>
      settle(job, token, () =>
        record?.status === 'failed'
          ? job.moveToFailed(new Error(failureOf(record)), token, false)
          : job.moveToCompleted(null, token, false),
      ),
    reject: async (job, token) => {
      const line = lines.get(job.queueName);
      if (line !== undefined) await ended(tickets.reject(line, job, token));
    },
    withdraw: async (pipelineId, runId) => {
      await queues.get(pipelineId)?.remove(runId).catch(quiet);
    },
    giveBack: (job, token) => settle(job, token, () => job.moveToWait(token)),
    postpone: (job, token, { pauseMs, blocks }) =>
      settle(job, token, () =>
        blocks ? job.moveToWait(token) : job.moveToDelayed(clock.now().getTime() + pauseMs, token),
      ),
    promote: async (pipelineId, runId) => {
      // BullMQ refuses to promote a job that is not delayed: such a job is already waiting.
      await link.ask(() => ended(queues.get(pipelineId)?.backend.promote(runId)));
    },
    close: async () => {
      await Promise.all([...lines.values()].map(({ worker }) => worker.close(true)));
      await Promise.all([...lines.values()].map(({ queue }) => queue.close()));
    },
  };
}

function failureOf({ error, destinations }: RunRecord): string {
  const first = error ?? destinations.find((destination) => destination.error !== null)?.error;
  if (first === undefined || first === null) return 'failed';
  const { code, message } = publicError(first);
  return `${code}: ${message}`;
}
