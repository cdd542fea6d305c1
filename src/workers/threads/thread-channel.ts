import type { MessagePort } from 'node:worker_threads';
import type { Config } from '../../core/config/config.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { isRecord } from '../../core/lib/json-document.ts';
import type { LineLevel, Log } from '../../core/lib/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { type FinishedSpan, noTracer, recordingTracer, type Tracer } from '../../core/tracing/span.ts';
import { type TraceContext, traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';

/*
 * The communication between the pool and its threads. This is the thread's end. The pool's end is in
 * `supervised-task.ts`.
 */

/** The properties that all tasks have in common. They identify the task in log messages and spans. */
export interface ThreadJob extends TraceContext {
  runId: string;
  pipelineId: string;
}

export interface ThreadTask<Job extends ThreadJob = PublishJob> {
  job: Job;
  /** The thread's end of a channel that is open for as long as the task. */
  port: MessagePort;
  /** The configuration for the run. It has the run's pipeline, but not necessarily any others. */
  config: Config;
  /** Whether to send debug messages. */
  verbose: boolean;
  /** Whether to send spans. Default: false. */
  traced?: boolean;
}

/**
 * The answer to a task. Errors are sent as plain data, because a `WaybillError` would no longer be an
 * instance of its class after being sent to another thread.
 */
export type ThreadOutcome<Result = JobResult> =
  { ok: true; result: Result } | { ok: false; error: ErrorRecord };

export interface AbortMessage {
  type: 'abort';
  /** The error code of the publication. */
  code: ErrorCode;
  reason: string;
  hint: string | null;
}

export type ThreadMessage =
  /** Shows that the thread's event loop is still running. */
  | { type: 'alive' }
  | { type: 'progress'; progress: JobProgress[] }
  /** `trace` is the event's own span. */
  | { type: 'occurrence'; occurrence: Occurrence; trace: TraceContext }
  | { type: 'span'; span: FinishedSpan }
  | { type: 'log'; level: LineLevel; fields: object; message: string };

/** Checks that a value received from a thread is a valid message. */
export function isThreadMessage(message: unknown): message is ThreadMessage {
  if (!isRecord(message)) return false;
  switch (message['type']) {
    case 'alive':
      return true;
    case 'progress':
      return Array.isArray(message['progress']) && message['progress'].every(isProgress);
    case 'occurrence':
      return isRecord(message['occurrence']);
    case 'span':
      return isFinishedSpan(message['span']);
    case 'log':
      return isRecord(message['fields']);
    default:
      return false;
  }
}

const progressTypes = {
  planned: true,
  bytes: true,
  output: true,
  done: true,
} satisfies Record<JobProgress['type'], true>;

function isProgress(value: unknown): boolean {
  return isRecord(value) && Object.hasOwn(progressTypes, String(value['type']));
}

export interface ThreadWork {
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
  /** Writes to the daemon's log, which adds the run's id. */
  log: Log;
  /**
   * Passes an event to the daemon for delivery. A run does not wait for its events to be delivered: it ends
   * when its bundle is published.
   */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  tracer: Tracer;
}

/**
 * The interval at which progress is sent. It is short enough to go unnoticed, but every message wakes up the
 * main thread.
 */
const progressEveryMs = 50;
const aliveEveryMs = 5_000;

/**
 * Handles a task on a thread. Runs `work` with the task's job, and connects its signal, progress, and log to
 * the pool. Debug messages are only sent if the task is `verbose`. Never rejects.
 */
export async function answerTask<Job extends ThreadJob, Result>(
  { job, port, verbose, traced = false }: Omit<ThreadTask<Job>, 'config'>,
  { clock }: { clock: Clock },
  work: (job: Job, context: ThreadWork) => Promise<Result>,
): Promise<ThreadOutcome<Result>> {
  const abort = new AbortController();
  const post = (message: ThreadMessage): void => port.postMessage(message);
  port.on('message', ({ code, reason, hint }: AbortMessage) =>
    abort.abort(new WaybillError(code, reason, { hint: hint ?? undefined })),
  );
  const { onProgress, flush } = batchProgress(
    clock,
    (progress) => post({ type: 'progress', progress }),
    progressEveryMs,
  );
  const line = (level: LineLevel) => (fields: object, message: string) =>
    post({ type: 'log', level, fields: plainFields(fields), message });
  const log: Log = {
    debug: verbose ? line('debug') : () => undefined,
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
    isLevelEnabled: () => verbose,
  };
  const signs = clock.every(aliveEveryMs, () => post({ type: 'alive' }));
  try {
    // If an event does not have its own span, it belongs to the run's span.
    const notify: ThreadWork['notify'] = (occurrence, trace = traceOf(job)) =>
      post({ type: 'occurrence', occurrence, trace });
    const tracer = traced ? relayedTracer(clock, (span) => post({ type: 'span', span })) : noTracer;
    return { ok: true, result: await work(job, { signal: abort.signal, onProgress, log, notify, tracer }) };
  } catch (error) {
    log.error({ err: error }, 'the task did not end');
    return { ok: false, error: errorRecord(error) };
  } finally {
    signs.cancel();
    flush();
  }
}

/**
 * Collects progress messages and sends them in batches, in order. A batch is sent `everyMs` after its first
 * message, or when `flush` is called. When a destination is done, everything is sent right away, so that it
 * is part of the run's record even if the thread crashes. If several messages in a row report bytes for the
 * same destination, they are combined.
 */
export function batchProgress(
  clock: Clock,
  emit: (progress: JobProgress[]) => void,
  everyMs: number,
): { onProgress: (progress: JobProgress) => void; flush: () => void } {
  let held: JobProgress[] = [];
  let timer: Timer | undefined;
  let heldSince = 0;
  const flush = (): void => {
    timer?.cancel();
    timer = undefined;
    if (held.length === 0) return;
    const batch = held;
    held = [];
    emit(batch);
  };
  const onProgress = (progress: JobProgress): void => {
    if (held.length === 0) {
      heldSince = clock.monotonic();
      timer = clock.timeout(everyMs, flush);
    }
    const last = held.at(-1);
    if (progress.type === 'bytes' && last?.type === 'bytes' && last.destinationId === progress.destinationId)
      held[held.length - 1] = { ...last, count: last.count + progress.count };
    else held.push(progress);
    // A publication may be blocking the event loop, in which case timers do not fire.
    if (progress.type === 'done' || clock.monotonic() - heldSince >= everyMs) flush();
  };
  return { onProgress, flush };
}

/**
 * Converts log fields to plain data. Functions and classes cannot be sent to another thread, and errors would
 * lose their codes.
 */
function plainFields(fields: object): object {
  return JSON.parse(
    JSON.stringify(fields, (_key, value: unknown) => (value instanceof Error ? plainError(value) : value)),
  ) as object;
}

function plainError(error: Error): object {
  const code = 'code' in error ? error.code : undefined;
  return { type: error.name, code, message: error.message, stack: error.stack, cause: error.cause };
}

/*
 * Tracing on worker threads. The threads record spans, but send them to the daemon's main thread to be
 * exported. That way, only one thread has to load OpenTelemetry and connect to the collector.
 */

/**
 * Creates the tracer of a thread. The parent of every span is the run, so it is not up to the thread to
 * decide which traces are sampled.
 */
function relayedTracer(clock: Clock, send: (span: FinishedSpan) => void): Tracer {
  return recordingTracer({ clock, report: send, samples: () => false });
}

/** Checks that a value received from a thread is a span that is safe to export. */
function isFinishedSpan(value: unknown): value is FinishedSpan {
  if (typeof value !== 'object' || value === null) return false;
  const { name, traceId, spanId, startedAt, endedAt, attributes } = value as Partial<FinishedSpan>;
  return (
    [name, traceId, spanId].every((text) => typeof text === 'string') &&
    [startedAt, endedAt].every((time) => typeof time === 'number') &&
    typeof attributes === 'object'
  );
}
