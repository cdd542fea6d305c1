import { type Job, Queue, Worker } from 'bullmq';
import pMap from 'p-map';
import type { Clock } from '../../core/lib/clock.ts';
import { publicError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { plain, type RedisLink } from './link.ts';
import type { JobLock, RunStore } from './run-store.ts';

/** What BullMQ knows of a run: enough to find it in Redis. The run itself is in the store. */
export interface Ticket {
  run_id: string;
}

/**
 * BullMQ's queues, one for each pipeline. Each has one active job at a time, whatever the number of hosts.
 */
export interface PipelineQueues {
  queues: ReadonlyMap<string, Queue>;
  /** Opens the queues of those that have none yet. Throws `queue_unavailable`. */
  add(pipelineIds: readonly string[]): Promise<void>;
  /**
   * Moves accepted runs from the outbox into the pipeline's queue, in the order of acceptance. Idempotent,
   * also if several hosts do it at once.
   */
  handOver(pipelineId: string): Promise<void>;
  /** The pipelines in which a job waits or is postponed, in one question for all. */
  waiting(): Promise<string[]>;
  /** Whether a job waits in the pipeline, whether or not another is active. */
  isWaiting(pipelineId: string): Promise<boolean>;
  /** Locks the pipeline's next job and resolves with it; undefined if none waits or one is active. */
  next(pipelineId: string, token: string): Promise<Job<Ticket> | undefined>;
  /** Puts jobs whose worker has died back at the head of their queues. */
  rescue(): Promise<void>;
  lockOf(job: Job<Ticket>, token: string): JobLock;
  /** Ends the job in BullMQ. Does nothing if the token no longer holds the job's lock. */
  end(job: Job<Ticket>, token: string, record: RunRecord | null): Promise<void>;
  /** Removes the ticket of a run that never begins; if it cannot be, it is ended when its turn comes. */
  withdraw(pipelineId: string, runId: string): Promise<void>;
  /** Puts the job back at the head of its queue. */
  giveBack(job: Job<Ticket>, token: string): Promise<void>;
  /**
   * The job is not taken for so many milliseconds. With `blocks` it waits at the head of its queue, and keeps
   * others from being taken (`RunStore.mayTake`).
   */
  postpone(job: Job<Ticket>, token: string, wait: { pauseMs: number; blocks: boolean }): Promise<void>;
  /** A job that was postponed may be taken now. */
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
  /** A worker that was silent for this many milliseconds counts as dead. */
  workerTimeoutMs: number;
}

/**
 * All at once, hundreds of queues keep the loop from the answers for longer than a call may take: Redis would
 * seem to be away.
 */
const openedAtOnce = 8;
const keptForBoard = 1000;
const keptEvents = 1000;

export async function pipelineQueues(options: PipelineQueuesOptions): Promise<PipelineQueues> {
  const { link, store, clock, log, workerTimeoutMs } = options;
  const prefix = `${options.prefix}:queue`;
  // BullMQ shares the connection and does not close it. Its errors are those of calls, which also reject.
  const quiet = (error: Error): void => log.debug({ err: plain(error) }, 'bullmq');
  const queues = new Map<string, Queue<Ticket>>();
  const workers = new Map<string, Worker<Ticket>>();
  const open = async (id: string): Promise<void> => {
    const queue = new Queue<Ticket>(id, {
      connection: link.redis,
      prefix,
      streams: { events: { maxLen: keptEvents } },
    });
    const worker = new Worker<Ticket>(id, null, {
      connection: link.redis,
      prefix,
      lockDuration: workerTimeoutMs,
      // The least time between two checks by any host; each host asks more often.
      stalledInterval: Math.ceil(workerTimeoutMs / 4),
      // `attempt.ts` limits how often a run is begun again.
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
    workers.set(id, worker);
  };
  const add = async (pipelineIds: readonly string[]): Promise<void> => {
    const missing = pipelineIds.filter((id) => !queues.has(id));
    await pMap(missing, open, { concurrency: openedAtOnce });
  };
  await add(options.pipelineIds);

  const keep = { age: Math.ceil(options.retentionMs / 1000), count: keptForBoard };
  const ended = async (work: Promise<unknown>): Promise<void> => {
    try {
      await work;
    } catch (error) {
      // BullMQ's messages if the lock is not ours or the job is not active.
      if (!/lock|not in the (active|.*) state|Missing key/i.test(plain(error).message)) throw error;
    }
  };
  return {
    queues,
    add,
    handOver: async (pipelineId) => {
      const queue = queues.get(pipelineId);
      if (queue === undefined) return;
      // In ascending order, and each host reads before it adds: a run that is no longer in the outbox is in
      // the queue already.
      const runIds = await store.outbox(pipelineId);
      if (runIds.length === 0) return;
      const jobs = runIds.map((runId) => ({
        name: 'publish',
        data: { run_id: runId },
        opts: { jobId: runId, attempts: 1, removeOnComplete: keep, removeOnFail: keep },
      }));
      await link.ask(() => queue.addBulk(jobs));
      await store.handedOver(pipelineId, runIds);
    },
    waiting: async () => {
      const ids = [...queues.keys()];
      const lengths = await link.ask(async () => {
        const asked = link.redis.pipeline();
        for (const id of ids) asked.llen(`${prefix}:${id}:wait`).zcard(`${prefix}:${id}:delayed`);
        return asked.exec();
      });
      // An error in place of a length: asking for the job itself will tell.
      return ids.filter((_, index) =>
        (lengths ?? []).slice(2 * index, 2 * index + 2).some(([, length]) => length !== 0),
      );
    },
    isWaiting: async (pipelineId) =>
      (await link.ask(() => link.redis.llen(`${prefix}:${pipelineId}:wait`))) > 0,
    next: (pipelineId, token) =>
      link.ask(async () => workers.get(pipelineId)?.getNextJob(token, { block: false })),
    rescue: async () => {
      for (const [pipelineId, worker] of workers) {
        const stalled = await link.ask(() => worker.backend.moveStalledJobsToWait());
        for (const runId of stalled)
          log.warn(
            { run_id: runId, pipeline_id: pipelineId },
            'the worker of this run is gone; it waits for another',
          );
      }
    },
    lockOf: ({ id = '', queueName }, token) => {
      const key = (name: string): string => `${prefix}:${queueName}:${name}`;
      return {
        lockKey: key(`${id}:lock`),
        activeKey: key('active'),
        stalledKey: key('stalled'),
        token,
        jobId: id,
      };
    },
    end: (job, token, record) =>
      link.ask(() =>
        ended(
          record?.status === 'failed'
            ? job.moveToFailed(new Error(failureOf(record)), token, false)
            : job.moveToCompleted(null, token, false),
        ),
      ),
    withdraw: async (pipelineId, runId) => {
      await queues.get(pipelineId)?.remove(runId).catch(quiet);
    },
    giveBack: (job, token) => link.ask(() => ended(job.moveToWait(token))),
    postpone: (job, token, { pauseMs, blocks }) =>
      link.ask(() =>
        ended(blocks ? job.moveToWait(token) : job.moveToDelayed(clock.now().getTime() + pauseMs, token)),
      ),
    promote: async (pipelineId, runId) => {
      // BullMQ refuses a job that is not delayed: it waits already.
      const job = await link.ask(async () => queues.get(pipelineId)?.getJob(runId));
      await job?.promote().catch(quiet);
    },
    close: async () => {
      await Promise.all([...workers.values()].map((worker) => worker.close(true)));
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}

function failureOf({ error, destinations }: RunRecord): string {
  const first = error ?? destinations.find((destination) => destination.error !== null)?.error;
  if (first === undefined || first === null) return 'failed';
  const { code, message } = publicError(first);
  return `${code}: ${message}`;
}
