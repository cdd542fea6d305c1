import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { Config } from '../../core/config/config.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { createSemaphore, type Semaphore } from '../../core/lib/parallel.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { withinRunTimeout } from '../../core/publish/deadlines.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import type { FinishedSpan } from '../../core/tracing/span.ts';
import { type TraceContext, traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { supervise } from './supervised-task.ts';
import type { ThreadJob, ThreadOutcome } from './thread-channel.ts';

export interface WorkerPoolOptions {
  clock: Clock;
  log: Log;
  /** The module whose export handles a `ThreadTask`. The export is `publish` unless another name is given. */
  file: URL;
  /** Number of concurrent jobs. Each job has its own thread. */
  threads: number;
  /** Plain data passed to the module as `workerData`. */
  data: unknown;
  /** The threads' environment. */
  env: Readonly<Record<string, string>>;
  /** How long an aborted job may take to stop before its thread is ended, in milliseconds. */
  graceMs: number;
  /** How long a thread may go without a sign of life before it is ended, in milliseconds. */
  silenceMs?: number;
  /** Returns the configuration for a run of the pipeline that starts now, as plain data for its thread. */
  configOf: (pipelineId: string) => Config;
  limits?: ResourceLimits;
  /** Whether to send debug log lines now. Default: false. */
  verbose?: () => boolean;
  /** Receives publication events for the notifiers. */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Receives the threads' spans. If absent, no spans are recorded. */
  onSpan?: ((span: FinishedSpan) => void) | undefined;
}

export interface WorkerPool {
  /** See `ThreadPool.process`. */
  process: JobProcessor;
  stats: () => ThreadStats;
  /** Ends every thread. Running jobs fail with `worker_failed`. */
  close: () => Promise<void>;
}

export interface ThreadStats {
  /** Number of existing threads. Threads start on demand and end when idle. */
  threads: number;
  /** Number of threads that are running a job. */
  busy: number;
  /** Number of threads since startup that broke or had to be ended. Each was replaced on demand. */
  replaced: number;
}

// Publications are streamed. A thread that needs more memory than this has a bug, and must not crash the
// daemon.
const defaultLimits: ResourceLimits = { maxOldGenerationSizeMb: 512 };
const idleTimeoutMs = 60_000;
// No publication blocks its event loop for this long, and signs of life need only the event loop.
const defaultSilenceMs = 120_000;

/** Creates a pool that publishes on threads. Notifies about runs that did not complete. */
export function workerPool(options: WorkerPoolOptions): WorkerPool {
  const pool = new ThreadPool<PublishJob, JobResult>(options, 'publish');
  const process = withinTimeout(options, (job, context) => pool.process(job, context));
  return {
    process: notifyingOfFailures(options, process),
    stats: () => pool.stats(),
    close: () => pool.close(),
  };
}

/** Stops a run at its pipeline's deadline. A thread that does not know the pipeline refuses the run. */
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
 * Runs jobs on threads, so that hashing and compression never delay HTTP requests and a broken thread does
 * not affect others.
 *
 * A thread that throws, exits, runs out of memory or cannot be loaded fails its own job with `worker_failed`.
 * The next job gets a new thread. An abort is first sent as a message, so that the core can stop cleanly and
 * release its lease. If that takes longer than `graceMs`, the thread is ended and the job fails with
 * `aborted`. A hung thread sends no sign of life, so it is ended after `silenceMs` and its job fails with
 * `worker_failed`.
 *
 * One pipeline can occupy all threads but one, so that a pipeline with a stalled server leaves a thread for
 * the others. A pool with a single thread cannot guarantee that.
 */
export class ThreadPool<Job extends ThreadJob, Result> {
  readonly #options: WorkerPoolOptions & { silenceMs: number };
  /** The module's export that runs the jobs. */
  readonly #task: string;
  readonly #pool: Piscina;
  readonly #shares: PipelineShares;
  /** Fails the jobs that no thread has finished yet. */
  readonly #unfinished = new Set<(failure: unknown) => void>();
  #replaced = 0;

  constructor(options: WorkerPoolOptions, task: string) {
    this.#options = { ...options, silenceMs: options.silenceMs ?? defaultSilenceMs };
    this.#task = task;
    this.#shares = new PipelineShares(Math.max(1, options.threads - 1));
    this.#pool = new Piscina({
      minThreads: 0,
      maxThreads: options.threads,
      idleTimeout: idleTimeoutMs,
      // An idle thread keeps running its event loop, so that closing connections can finish.
      atomics: 'disabled',
      env: options.env,
      workerData: options.data,
      resourceLimits: options.limits ?? defaultLimits,
    });
    // Reports threads that broke between jobs or before their first job. If no thread is left, a waiting job
    // would otherwise wait forever.
    this.#pool.on('error', (error: unknown) => {
      options.log.error({ err: error }, 'a worker thread broke');
      if (this.#pool.threads.length === 0) for (const fail of this.#unfinished) fail(error);
    });
  }

  /**
   * Runs a job on a thread. Throws `worker_failed` if the thread broke. If it was stopped, throws an error
   * with the code of the signal's reason. Otherwise, throws an error with the code of the job's own error.
   */
  async process(job: Job, context: JobContext): Promise<Result> {
    const release = await this.#shares.acquire(job.pipelineId, context.signal);
    try {
      return await this.#run(job, context);
    } finally {
      release();
    }
  }

  stats(): ThreadStats {
    const threads = this.#pool.threads.length;
    return { threads, busy: Math.min(this.#unfinished.size, threads), replaced: this.#replaced };
  }

  /** Ends every thread. Running jobs fail with `worker_failed`. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #run(job: Job, context: JobContext): Promise<Result> {
    if (context.signal.aborted) throw asWaybillError(context.signal.reason);
    const { task, transferList, terminate, ...supervised } = supervise(job, context, this.#options);
    this.#unfinished.add(supervised.giveUp);
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

/** Reports runs that did not complete. The thread itself reports failed destinations. */
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
  const { code, message, hint, findings, retryable } = outcome.error;
  throw new WaybillError(code, message, { ...(hint === null ? {} : { hint }), findings, retryable });
}

/**
 * Limits how many places in a pool each pipeline can hold concurrently. A pipeline at its limit waits in
 * order.
 */
class PipelineShares {
  readonly #limit: number;
  /** Pipelines that hold or are waiting for a place. */
  readonly #used = new Map<string, { semaphore: Semaphore; users: number }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Resolves with a function that releases the place. Throws the reason of `signal` when it aborts. */
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
