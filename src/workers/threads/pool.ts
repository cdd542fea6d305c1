import {
  MessageChannel,
  receiveMessageOnPort,
  type MessagePort,
  type ResourceLimits,
} from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { Piscina } from 'piscina';
import type { Clock } from '../../core/clock.ts';
import { asWaybillError, errorRecord, WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { runFailure } from '../../core/publish/occurrences.ts';
import type { JobProgress, JobResult, PublishJob } from '../job.ts';
import type { JobProcessor } from '../queue.ts';
import { watchForSigns } from './signs-of-life.ts';
import {
  isFromThread,
  type FromThread,
  type ThreadOutcome,
  type ThreadTask,
  type ToThread,
} from './thread-channel.ts';

export interface WorkerPoolOptions {
  clock: Clock;
  log: Log;
  /** The module whose export `publish` takes a `ThreadTask`. */
  file: URL;
  /** Jobs at once; each has a thread of its own. */
  threads: number;
  /** Plain data for the module, as `workerData`. */
  data: unknown;
  /** The threads' environment. */
  env: Readonly<Record<string, string>>;
  /** How long an aborted job may take to stop by itself before its thread is ended, in milliseconds. */
  graceMs: number;
  /** How long a thread may show no sign of life before it is ended, in milliseconds. */
  silenceMs?: number;
  limits?: ResourceLimits;
  /** What the threads have to tell of committed publications, for notifiers. */
  notify: (occurrence: Occurrence) => void;
}

export interface WorkerPool {
  process: JobProcessor;
  stats: () => ThreadStats;
  /** Ends every thread. Jobs that still run fail with `worker_failed`. */
  close(): Promise<void>;
}

export interface ThreadStats {
  /** Threads that are there now; they come with work and go when idle. */
  threads: number;
  /** Of these, how many publish. */
  busy: number;
  /** Threads that broke or had to be ended, since the start; each was replaced when there was work again. */
  replaced: number;
}

// Publications stream; a thread that needs more has a defect, and must not take the daemon with it.
const defaultLimits: ResourceLimits = { maxOldGenerationSizeMb: 512 };
const idleTimeoutMs = 60_000;
// No publication computes for so long without turning its event loop, which is what a sign of life takes.
const defaultSilenceMs = 120_000;

/**
 * Runs jobs on threads, so that hashing and compression never hold up the HTTP side and a thread that breaks
 * takes nothing with it.
 *
 * A thread that throws, exits, runs out of memory or cannot even load fails its own job with `worker_failed`;
 * the next job gets a new thread. An abort is first a message, so that the core can stop cleanly and give its
 * lease back; where that takes longer than `graceMs`, the thread is ended and the job fails with `aborted`. A
 * thread that stands still shows no sign of life; it is ended after `silenceMs` and its job fails with
 * `worker_failed`.
 */
export function workerPool(options: WorkerPoolOptions): WorkerPool {
  const pool = new Piscina({
    minThreads: 0,
    maxThreads: options.threads,
    idleTimeout: idleTimeoutMs,
    // Between jobs a thread goes on turning its event loop, so that connections it is closing do close.
    atomics: 'disabled',
    env: options.env,
    workerData: options.data,
    resourceLimits: options.limits ?? defaultLimits,
  });
  const unanswered = new Set<(failure: unknown) => void>();
  let replaced = 0;
  // Told here: a thread that broke between two jobs, and one that broke before it took its first. Where no
  // thread is left, a job that waits for one would wait for ever.
  pool.on('error', (error: unknown) => {
    options.log.error({ err: error }, 'a worker thread broke');
    if (pool.threads.length === 0) for (const giveUp of unanswered) giveUp(error);
  });

  return {
    process: tellingFailures(options, async (job, { signal, onProgress }) => {
      if (signal.aborted) throw asWaybillError(signal.reason);
      const { port1, port2 } = new MessageChannel();
      const terminate = new AbortController();
      const settled = new AbortController();
      let breakage: unknown;
      const giveUp = (failure: unknown): void => {
        breakage = failure;
        terminate.abort();
      };
      const onAbort = (): void => {
        port1.postMessage({
          type: 'abort',
          reason: asWaybillError(signal.reason).message,
        } satisfies ToThread);
        options.clock.sleep(options.graceMs, settled.signal).then(
          () => terminate.abort(),
          () => undefined,
        );
      };
      const silenceMs = options.silenceMs ?? defaultSilenceMs;
      const signs = watchForSigns({ clock: options.clock, silenceMs, signal: settled.signal, giveUp });
      const deliver = (message: unknown): void => {
        signs.seen();
        // What a defect in a thread sends must not break the daemon.
        try {
          if (!isFromThread(message)) throw new TypeError('it is none of the messages of a thread');
          receive(message, job, options, onProgress);
        } catch (error) {
          options.log.error({ run_id: job.runId, err: error }, 'a worker thread sent what cannot be used');
        }
      };
      port1.on('message', deliver);
      signal.addEventListener('abort', onAbort, { once: true });
      unanswered.add(giveUp);
      try {
        const task: ThreadTask = { job, port: port2 };
        const run = {
          filename: fileURLToPath(options.file),
          name: 'publish',
          transferList: [port2],
          signal: terminate.signal,
        };
        const outcome = (await pool.run(task, run)) as ThreadOutcome;
        deliverAll(port1, deliver);
        return resultOf(outcome);
      } catch (failure) {
        if (failure instanceof WaybillError) throw failure;
        replaced += 1;
        if (breakage !== undefined) throw broken(breakage);
        throw terminate.signal.aborted ? ended(options.graceMs) : broken(failure);
      } finally {
        unanswered.delete(giveUp);
        signal.removeEventListener('abort', onAbort);
        settled.abort('settled');
        port1.close();
      }
    }),
    stats: () => ({
      threads: pool.threads.length,
      busy: Math.min(unanswered.size, pool.threads.length),
      replaced,
    }),
    close: () => pool.destroy(),
  };
}

/** What failed at a destination the thread has told already; this is for a run that came to no end. */
function tellingFailures({ notify }: WorkerPoolOptions, process: JobProcessor): JobProcessor {
  return async (job, context) => {
    try {
      return await process(job, context);
    } catch (failure) {
      notify(runFailure(job.pipelineId, job.runId, errorRecord(failure)));
      throw failure;
    }
  };
}

function receive(
  message: FromThread,
  job: PublishJob,
  { log, notify }: WorkerPoolOptions,
  onProgress: (progress: JobProgress) => void,
): void {
  if (message.type === 'progress') message.progress.forEach((progress) => onProgress(progress));
  else if (message.type === 'occurrence') notify(message.occurrence);
  else if (message.type === 'log')
    log[message.level](
      { run_id: job.runId, pipeline_id: job.pipelineId, ...message.fields },
      message.message,
    );
}

/**
 * The answer comes by another port than the progress and may overtake it; what was sent before the answer is
 * here already.
 */
function deliverAll(port: MessagePort, deliver: (message: unknown) => void): void {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    deliver(next.message);
  }
}

function resultOf(outcome: ThreadOutcome): JobResult {
  if (outcome.ok) return outcome.result;
  const { code, message, hint, findings } = outcome.error;
  throw new WaybillError(code, message, { ...(hint === null ? {} : { hint }), findings });
}

function broken(cause: unknown): WaybillError {
  // What a thread throws is cloned on its way here, and not everything stays an `Error`.
  const message = cause instanceof Error ? cause.message : inspect(cause);
  return new WaybillError('worker_failed', `the worker thread broke: ${message}`, {
    cause,
    hint: 'upload the bundle again: the destination is left so that the next publication completes it',
  });
}

function ended(graceMs: number): WaybillError {
  return new WaybillError('aborted', `the worker thread did not stop within ${graceMs} ms and was ended`, {
    hint: 'upload the bundle again: the destination is left so that the next publication completes it',
  });
}
