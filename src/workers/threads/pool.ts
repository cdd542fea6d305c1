import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { asWaybillError, errorRecord, recordedError, WaybillError } from '../../core/lib/errors.ts';
import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';
import { withinRunTimeout } from '../../core/publish/deadlines.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { supervise, type SupervisionOptions } from './supervised-task.ts';
import type { ThreadJob, ThreadOutcome } from './thread-channel.ts';
import { leaveRemovedDirectory } from './working-directory.ts';

export interface WorkerPoolOptions extends Omit<SupervisionOptions, 'silenceMs'> {
  /**
   * The module to run on the threads. Its export `publish`, or another one that was asked for, handles each
   * `ThreadTask`.
   */
  file: URL;
  /** The maximum number of concurrent jobs. Each one has a thread to itself. */
  threads: number;
  /** Plain data that the module receives as `workerData`. */
  data: unknown;
  /** The environment variables of the threads. */
  env: Readonly<Record<string, string>>;
  silenceMs?: number;
  limits?: ResourceLimits;
}

export interface WorkerPool {
  /** See `ThreadPool.process`. */
  process: JobProcessor;
  stats: () => ThreadStats;
  /** Terminates all threads. Jobs in progress fail with `worker_failed`. */
  close: () => Promise<void>;
}

export interface ThreadStats {
  /** The number of threads. They are started on demand and terminated when idle. */
  threads: number;
  /** The number of threads that are running a job. */
  busy: number;
  /**
   * The number of threads that have crashed or had to be terminated since startup. Each is replaced when
   * needed.
   */
  replaced: number;
}

// Publications do not load whole files into memory. If a thread needs more than this, it has a bug, which
// must not take down the daemon.
const defaultLimits: ResourceLimits = { maxOldGenerationSizeMb: 512 };
const idleTimeoutMs = 60_000;
// Threads send signs of life from their event loop, and no publication blocks the event loop for this long.
const defaultSilenceMs = 120_000;

/** Creates a pool of threads that publish. If a run does not complete, the notifiers are informed. */
export function workerPool(options: WorkerPoolOptions): WorkerPool {
  const pool = new ThreadPool<PublishJob, JobResult>(options, 'publish');
  const process = withinTimeout(options, (job, context) => pool.process(job, context));
  return {
    process: notifyingOfFailures(options, process),
    stats: () => pool.stats(),
    close: () => pool.close(),
  };
}

/**
 * Aborts runs that exceed their pipeline's timeout. If the pipeline is unknown, leaves it to the thread to
 * reject the run.
 */
function withinTimeout({ clock, configOf }: WorkerPoolOptions, process: JobProcessor): JobProcessor {
  return async (job, { signal, onProgress }) => {
    const pipeline = configOf(job.pipelineId).pipelines.find(({ id }) => id === job.pipelineId);
    if (pipeline === undefined) return process(job, { signal, onProgress });
    return withinRunTimeout({ clock, signal }, pipeline, onProgress, (stop, report) =>
      process(job, { signal: stop, onProgress: report }),
    );
  };
}

/**
 * Runs jobs on threads, so that hashing and compression do not slow down HTTP requests, and one crashing
 * thread does not affect the others.
 *
 * If a thread throws, exits, runs out of memory, or cannot be loaded, its job fails with `worker_failed`, and
 * the next job gets a new thread. To abort a job, the thread is first sent a message, so that the core can
 * stop cleanly and release its lease. If that takes longer than `graceMs`, the thread is terminated and the
 * job fails with `aborted`. If a thread hangs, it no longer sends signs of life. It is then terminated after
 * `silenceMs`, and its job fails with `worker_failed`.
 *
 * A single pipeline can use all threads except for one. That way, if its server is stuck, there is still a
 * thread left for other pipelines. This does not work if the pool has only one thread.
 */
export class ThreadPool<Job extends ThreadJob, Result> {
  readonly #options: WorkerPoolOptions & { silenceMs: number };
  /** The name of the module's export that runs the jobs. */
  readonly #task: string;
  readonly #pool: Piscina;
  readonly #shares: PipelineShares;
  /** One permit per thread. A job that is in the pool must show signs of life, so it needs a thread first. */
  readonly #idle: Semaphore;
  /** Functions that make unfinished jobs fail. */
  readonly #unfinished = new Set<(failure: unknown) => void>();
  #replaced = 0;

  constructor(options: WorkerPoolOptions, task: string) {
    this.#options = { ...options, silenceMs: options.silenceMs ?? defaultSilenceMs };
    this.#task = task;
    this.#shares = new PipelineShares(Math.max(1, options.threads - 1));
    this.#idle = createSemaphore(options.threads);
    this.#pool = new Piscina({
      minThreads: 0,
      maxThreads: options.threads,
      idleTimeout: idleTimeoutMs,
      // Keep the event loops of idle threads running, so that they can finish closing connections.
      atomics: 'disabled',
      env: options.env,
      workerData: options.data,
      resourceLimits: options.limits ?? defaultLimits,
    });
    // This reports threads that crash while idle. If it was the last thread, the waiting jobs would wait
    // forever, so make them fail.
    this.#pool.on('error', (error: unknown) => {
      options.log.error({ err: error }, 'a worker thread crashed');
      if (this.#pool.threads.length === 0) for (const fail of this.#unfinished) fail(error);
    });
  }

  /**
   * Runs a job on a thread. Throws `worker_failed` if the thread crashes. If the job is aborted, the error
   * has the code of the signal's reason. Otherwise, it has the code of the job's own error.
   */
  async process(job: Job, context: JobContext): Promise<Result> {
    const { signal } = context;
    const leave = await this.#shares.acquire(job.pipelineId, signal);
    try {
      const release = await this.#idle.acquire(1, signal);
      return await this.#run(job, context).finally(release);
    } finally {
      leave();
    }
  }

  stats(): ThreadStats {
    const threads = this.#pool.threads.length;
    return { threads, busy: Math.min(this.#unfinished.size, threads), replaced: this.#replaced };
  }

  /** Terminates all threads. Jobs in progress fail with `worker_failed`. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #run(job: Job, context: JobContext): Promise<Result> {
    if (context.signal.aborted) throw asWaybillError(context.signal.reason);
    const { task, transferList, terminate, ...supervised } = supervise(job, context, this.#options);
    this.#unfinished.add(supervised.giveUp);
    leaveRemovedDirectory(this.#options.log);
    try {
      const outcome = (await this.#pool.run(task, {
        filename: fileURLToPath(this.#options.file),
        name: this.#task,
        transferList,
        signal: terminate,
      })) as ThreadOutcome<Result>;
      supervised.deliverRest();
      return resultOf(outcome);
    } catch (failure) {
      if (failure instanceof WaybillError) throw failure;
      this.#replaced += 1;
      throw supervised.failureOf(failure);
    } finally {
      this.#unfinished.delete(supervised.giveUp);
      supervised.settle();
    }
  }
}

interface JobContext {
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
}

/** Notifies about runs that did not complete. Destinations that failed are already reported by the thread. */
function notifyingOfFailures({ notify }: WorkerPoolOptions, process: JobProcessor): JobProcessor {
  return async (job, context) => {
    try {
      return await process(job, context);
    } catch (failure) {
      notify(runFailure(job.pipelineId, job.runId, errorRecord(failure)), traceOf(job));
      throw failure;
    }
  };
}

function resultOf<Result>(outcome: ThreadOutcome<Result>): Result {
  if (outcome.ok) return outcome.result;
  throw recordedError(outcome.error);
}

/**
 * Limits how many threads of a pool a single pipeline can use at the same time. Further jobs of the pipeline
 * wait in line.
 */
class PipelineShares {
  readonly #limit: number;
  /** The pipelines that are using threads or waiting for them. */
  readonly #used = new Map<string, { semaphore: Semaphore; users: number }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Waits until the pipeline may use another thread. Resolves with a function that gives it back. When
   * `signal` aborts, throws its reason.
   */
  async acquire(pipelineId: string, signal: AbortSignal): Promise<() => void> {
    const share = this.#used.get(pipelineId) ?? { semaphore: createSemaphore(this.#limit), users: 0 };
    this.#used.set(pipelineId, share);
    share.users += 1;
    const leave = (): void => {
      share.users -= 1;
      if (share.users === 0) this.#used.delete(pipelineId);
    };
    try {
      const release = await share.semaphore.acquire(1, signal);
      return () => {
        release();
        leave();
      };
    } catch (error) {
      leave();
      throw error;
    }
  }
}
