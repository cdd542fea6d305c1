import type { MessagePort } from 'node:worker_threads';
import type { Config } from '../../core/config/config.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { LineLevel, Log } from '../../core/lib/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { type FinishedSpan, noTracer, recordingTracer, type Tracer } from '../../core/tracing/span.ts';
import { type TraceContext, traceOf } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';

/*
 * The protocol between the pool and its threads, and the thread's side of it. The pool's side is in
 * `supervised-task.ts`.
 */

/** Properties of every task. They identify the task's log lines and spans. */
export interface ThreadJob extends TraceContext {
  runId: string;
  pipelineId: string;
}

export interface ThreadTask<Job extends ThreadJob = PublishJob> {
  job: Job;
  /** The thread's end of a channel that exists as long as the task. */
  port: MessagePort;
  /** The configuration for the run. It contains the run's pipeline and may contain no others. */
  config: Config;
  /** Whether to send debug log lines. */
  verbose: boolean;
  /** Whether to send spans. Default: false. */
  traced?: boolean;
}

/**
 * The answer to a task. Failures are plain data, because a `WaybillError` would lose its class between
 * threads.
 */
export type ThreadOutcome<Result = JobResult> =
  { ok: true; result: Result } | { ok: false; error: ErrorRecord };

export interface AbortMessage {
  type: 'abort';
  /** The publication's error code. */
  code: ErrorCode;
  reason: string;
  hint: string | null;
}

export type ThreadMessage =
  /** A sign of life that shows that the thread's event loop is running. */
  | { type: 'alive' }
  | { type: 'progress'; progress: JobProgress[] }
  /** `trace` is the event's span. */
  | { type: 'occurrence'; occurrence: Occurrence; trace: TraceContext }
  | { type: 'span'; span: FinishedSpan }
  | { type: 'log'; level: LineLevel; fields: object; message: string };

/** Reports whether a value from a thread is one of its messages. */
export function isThreadMessage(message: unknown): message is ThreadMessage {
  if (!isObject(message)) return false;
  switch (message['type']) {
    case 'alive':
      return true;
    case 'progress':
      return Array.isArray(message['progress']) && message['progress'].every(isProgress);
    case 'occurrence':
      return isObject(message['occurrence']);
    case 'span':
      return isFinishedSpan(message['span']);
    case 'log':
      return isObject(message['fields']);
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
  return isObject(value) && Object.hasOwn(progressTypes, String(value['type']));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

export interface ThreadWork {
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
  /** Writes through the daemon's logger, which adds the run's id. */
  log: Log;
  /**
   * Sends an event to the daemon, which delivers it. A run ends when its bundle is published, without waiting
   * for deliveries.
   */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  tracer: Tracer;
}

/** Short enough to go unnoticed in a run's record. Each message wakes the daemon's main thread. */
const progressEveryMs = 50;
const aliveEveryMs = 5_000;

/**
 * The thread's side. Runs `work` on the task's job, with abort, progress and log connected to the pool. Sends
 * debug lines only if the task is `verbose`. Never rejects.
 */
export async function answerTask<Job extends ThreadJob, Result>(
  { job, port, verbose, traced = false }: Omit<ThreadTask<Job>, 'config'>,
  { clock }: { clock: Clock },
  work: (job: Job, context: ThreadWork) => Promise<Result>,
): Promise<ThreadOutcome<Result>> {
  const abort = new AbortController();
  const post = (message: ThreadMessage): void => port.postMessage(message);
  port.on('message', ({ code, reason, hint }: AbortMessage) =>
    abort.abort(new WaybillError(code, reason, hint === null ? {} : { hint })),
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
    // An event without its own span belongs to the run's span.
    const notify: ThreadWork['notify'] = (occurrence, trace = traceOf(job)) =>
      post({ type: 'occurrence', occurrence, trace });
    const tracer = traced ? relayedTracer(clock, (span) => post({ type: 'span', span })) : noTracer;
    return { ok: true, result: await work(job, { signal: abort.signal, onProgress, log, notify, tracer }) };
  } catch (error) {
    log.error({ err: error }, 'the task did not come to an end');
    return { ok: false, error: errorRecord(error) };
  } finally {
    signs.cancel();
    flush();
  }
}

/**
 * Collects progress and forwards it in order, `everyMs` after the first message or when `flush` is called. A
 * completed destination is forwarded immediately, with all earlier messages, so that the run's record has it
 * even if the thread breaks. Consecutive byte counts for the same destination are added together.
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
    // Timers do not fire while a publication blocks its event loop.
    if (progress.type === 'done' || clock.monotonic() - heldSince >= everyMs) flush();
  };
  return { onProgress, flush };
}

/**
 * Returns log fields as plain data. Functions and classes cannot be cloned to another thread, and errors
 * would lose their codes.
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
 * Spans of worker threads. A thread records spans and sends them to the daemon's main thread, which alone
 * exports them. This way, only one thread needs OpenTelemetry and a connection to the collector.
 */

/**
 * The thread's side. Every span has the run as its parent, so the thread does not make sampling decisions.
 */
function relayedTracer(clock: Clock, send: (span: FinishedSpan) => void): Tracer {
  return recordingTracer({ clock, report: send, samples: () => false });
}

/** Reports whether a value from a thread is a span that can be exported safely. */
function isFinishedSpan(value: unknown): value is FinishedSpan {
  if (typeof value !== 'object' || value === null) return false;
  const { name, traceId, spanId, startedAt, endedAt, attributes } = value as Partial<FinishedSpan>;
  return (
    [name, traceId, spanId].every((text) => typeof text === 'string') &&
    [startedAt, endedAt].every((time) => typeof time === 'number') &&
    typeof attributes === 'object'
  );
}
