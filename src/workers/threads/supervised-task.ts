import { inspect } from 'node:util';
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { Config } from '../../core/config/config.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import type { FinishedSpan } from '../../core/tracing/span.ts';
import { type TraceContext, traceFields } from '../../core/tracing/trace-context.ts';
import type { JobProgress } from '../queue/job.ts';
import {
  type AbortMessage,
  isThreadMessage,
  type ThreadJob,
  type ThreadMessage,
  type ThreadTask,
} from './thread-channel.ts';

export interface SupervisionOptions {
  clock: Clock;
  log: Log;
  /** If an aborted job has not stopped after this many milliseconds, its thread is terminated. */
  graceMs: number;
  /** If a thread has not sent anything for this many milliseconds, it is terminated. */
  silenceMs: number;
  /** Returns the configuration for a run of this pipeline that starts now. Must be plain data. */
  configOf: (pipelineId: string) => Config;
  /** Whether threads should currently send debug messages. Default: false. */
  verbose?: () => boolean;
  /** Receives publication events for the notifiers. */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Receives the spans recorded by the thread. If absent, it does not record any. */
  onSpan?: (span: FinishedSpan) => void;
}

/** A task that is running on a thread, as seen from the pool. */
interface SupervisedTask<Job extends ThreadJob> {
  task: ThreadTask<Job>;
  transferList: MessagePort[];
  /** Aborts when the pool must terminate the thread. */
  terminate: AbortSignal;
  /** Terminates the thread, and makes the task fail with `failure` as its cause. */
  giveUp: (failure: unknown) => void;
  /** Delivers any messages that the thread sent before its answer. */
  deliverRest(): void;
  /** Returns the task's error if the thread ended because of `failure`. */
  failureOf(failure: unknown): WaybillError;
  /** Stops supervising the task. */
  settle(): void;
}

/**
 * Supervises a thread while it works on a task: forwards its messages, and terminates it if necessary. When a
 * job is aborted, the thread gets a message first and is terminated after `graceMs`. If the thread does not
 * send any signs of life, it is terminated after `silenceMs`.
 */
export function supervise<Job extends ThreadJob>(
  job: Job,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
  options: SupervisionOptions,
): SupervisedTask<Job> {
  const { clock, log, graceMs, silenceMs } = options;
  const { port1, port2 } = new MessageChannel();
  const terminate = new AbortController();
  const settled = new AbortController();
  let breakage: unknown;
  const giveUp = (failure: unknown): void => {
    breakage = failure;
    terminate.abort();
  };
  const abort = (): void => {
    const { code, message: reason, hint = null } = asWaybillError(signal.reason);
    port1.postMessage({ type: 'abort', code, reason, hint } satisfies AbortMessage);
    const grace = clock.timeout(graceMs, () => terminate.abort());
    onAbort(settled.signal, () => grace.cancel());
  };
  const signs = watchForHang({ clock, silenceMs, signal: settled.signal, giveUp });
  const deliver = (message: unknown): void => {
    signs.seen();
    // A thread may have a bug, but its messages must not crash the daemon.
    try {
      if (!isThreadMessage(message)) throw new TypeError('it is not a message of a thread');
      receive(message, job, options, onProgress);
    } catch (error) {
      log.error({ run_id: job.runId, err: error }, 'a worker thread sent an invalid message');
    }
  };
  port1.on('message', deliver);
  const release = onAbort(signal, abort);
  return {
    task: {
      job,
      port: port2,
      config: options.configOf(job.pipelineId),
      verbose: options.verbose?.() ?? false,
      traced: options.onSpan !== undefined,
    },
    transferList: [port2],
    terminate: terminate.signal,
    giveUp,
    deliverRest: () => deliverAll(port1, deliver),
    failureOf: (failure) => {
      if (breakage !== undefined) return crashedError(breakage);
      if (!terminate.signal.aborted) return crashedError(failure);
      return abortedError(asWaybillError(signal.reason), graceMs);
    },
    settle: () => {
      release();
      settled.abort('settled');
      port1.close();
    },
  };
}

function receive(
  message: ThreadMessage,
  job: ThreadJob,
  { log, notify, onSpan }: SupervisionOptions,
  onProgress: (progress: JobProgress) => void,
): void {
  if (message.type === 'progress') message.progress.forEach((progress) => onProgress(progress));
  else if (message.type === 'occurrence') notify(message.occurrence, message.trace);
  else if (message.type === 'span') onSpan?.(message.span);
  else if (message.type === 'log')
    log[message.level](
      {
        run_id: job.runId,
        pipeline_id: job.pipelineId,
        ...traceFields(job),
        ...message.fields,
      },
      message.message,
    );
}

/**
 * Delivers all messages that have arrived. The answer comes through a different port and may overtake them,
 * but everything that was sent before it is already here.
 */
function deliverAll(port: MessagePort, deliver: (message: unknown) => void): void {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    deliver(next.message);
  }
}

function crashedError(cause: unknown): WaybillError {
  // Errors are cloned when a thread sends them, so this may not be an instance of its class anymore.
  const message = cause instanceof Error ? cause.message : inspect(cause);
  return new WaybillError('worker_failed', `the worker thread crashed: ${message}`, {
    cause,
    hint: 'upload the bundle again: the next publication completes the destination',
  });
}

function abortedError({ code, message }: WaybillError, graceMs: number): WaybillError {
  const text = `${message}; the worker thread did not stop within ${graceMs} ms and was ended`;
  return new WaybillError(code, text, {
    hint: 'upload the bundle again: the next publication completes the destination',
  });
}

// A thread has to load its modules before it can send anything, which can take a while on a busy machine.
const startTimeoutMs = 120_000;

/**
 * Detects whether a thread that has a task hangs, in which case `giveUp` is called once. A thread hangs if
 * its first sign of life takes longer than two minutes, or if there is not another one for `silenceMs`
 * milliseconds after that. Stops when `signal` aborts.
 */
function watchForHang({
  clock,
  silenceMs,
  signal,
  giveUp,
}: {
  clock: Clock;
  silenceMs: number;
  signal: AbortSignal;
  giveUp: (failure: Error) => void;
}): { seen: () => void } {
  let signs = 0;
  const reportHang = (ms: number): void => giveUp(new Error(`it showed no sign of life for ${ms} ms`));

  async function watchStart(): Promise<void> {
    await clock.sleep(startTimeoutMs, signal);
    if (signs === 0) reportHang(startTimeoutMs);
  }

  /**
   * Waits until there has been no sign of life twice in a row. The first time, the whole process may just
   * have been suspended.
   */
  async function watchOn(): Promise<void> {
    for (let silences = 0; silences < 2;) {
      const before = signs;
      await clock.sleep(silenceMs / 2, signal);
      silences = signs === before ? silences + 1 : 0;
    }
    reportHang(silenceMs);
  }

  const untilSettled = (watch: Promise<void>): void => void watch.catch(() => undefined);
  untilSettled(watchStart());
  return {
    seen: () => {
      signs += 1;
      if (signs === 1) untilSettled(watchOn());
    },
  };
}
