import { performance } from 'node:perf_hooks';
import type { MessagePort } from 'node:worker_threads';
import { errorRecord, WaybillError, type ErrorRecord } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import type { JobProgress, JobResult, PublishJob } from '../job.ts';

/**
 * What crosses between the pool and its threads. Both ends of the protocol are told here and nowhere else.
 */
export interface ThreadTask {
  job: PublishJob;
  /** The thread's end of a channel that lives as long as the task. */
  port: MessagePort;
}

/** What a task answers. A `WaybillError` would lose its class on the way, so failures are data. */
export type ThreadOutcome = { ok: true; result: JobResult } | { ok: false; error: ErrorRecord };

export interface ToThread {
  type: 'abort';
  reason: string;
}

export type FromThread =
  /** The thread's event loop turns. */
  | { type: 'alive' }
  | { type: 'progress'; progress: JobProgress[] }
  | { type: 'occurrence'; occurrence: Occurrence }
  | { type: 'log'; level: keyof Log; fields: object; message: string };

/** Whether what came out of a thread is one of its messages. */
export function isFromThread(message: unknown): message is FromThread {
  if (!isObject(message)) return false;
  switch (message['type']) {
    case 'alive':
      return true;
    case 'progress':
      return Array.isArray(message['progress']) && message['progress'].every(isProgress);
    case 'occurrence':
      return isObject(message['occurrence']);
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
  /** Writes through the daemon's own logger, which adds the run's id. */
  log: Log;
  /**
   * Delivered by the daemon itself: a run is over when its bundle is published, and not when everyone was
   * told.
   */
  notify: (occurrence: Occurrence) => void;
}

/** Whoever looks at a run cannot tell the difference, and each message wakes the daemon's own thread. */
const progressEveryMs = 50;
const signOfLifeMs = 5_000;

/**
 * The thread's end: runs `work` on the task's job, with abort, progress and log wired to the pool. Never
 * rejects.
 */
export async function answerTask(
  { job, port }: ThreadTask,
  verbose: boolean,
  work: (job: PublishJob, context: ThreadWork) => Promise<JobResult>,
): Promise<ThreadOutcome> {
  const abort = new AbortController();
  const post = (message: FromThread): void => port.postMessage(message);
  port.on('message', ({ reason }: ToThread) => abort.abort(new WaybillError('aborted', reason)));
  const { onProgress, flush } = batchProgress(
    (progress) => post({ type: 'progress', progress }),
    progressEveryMs,
  );
  const line = (level: keyof Log) => (fields: object, message: string) =>
    post({ type: 'log', level, fields: plainFields(fields), message });
  const log: Log = {
    debug: verbose ? line('debug') : () => undefined,
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  };
  const signs = setInterval(() => post({ type: 'alive' }), signOfLifeMs);
  try {
    const notify = (occurrence: Occurrence): void => post({ type: 'occurrence', occurrence });
    return { ok: true, result: await work(job, { signal: abort.signal, onProgress, log, notify }) };
  } catch (error) {
    log.error({ err: error }, 'the publication did not come to an end');
    return { ok: false, error: errorRecord(error) };
  } finally {
    clearInterval(signs);
    flush();
  }
}

/**
 * Gathers progress and passes it on in order, `everyMs` after the first of it or when `flush` is called. That
 * a destination is done goes out at once, with all before it: it is what a run's record keeps should the
 * thread break. Neighbouring bytes of one destination are added up.
 */
export function batchProgress(
  emit: (progress: JobProgress[]) => void,
  everyMs: number,
): { onProgress: (progress: JobProgress) => void; flush: () => void } {
  let held: JobProgress[] = [];
  let timer: NodeJS.Timeout | undefined;
  let heldSince = 0;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (held.length === 0) return;
    const batch = held;
    held = [];
    emit(batch);
  };
  const onProgress = (progress: JobProgress): void => {
    if (held.length === 0) {
      heldSince = performance.now();
      timer = setTimeout(flush, everyMs);
    }
    const last = held.at(-1);
    if (progress.type === 'bytes' && last?.type === 'bytes' && last.destinationId === progress.destinationId)
      held[held.length - 1] = { ...last, count: last.count + progress.count };
    else held.push(progress);
    // A publication that does not turn its event loop has no timers.
    if (progress.type === 'done' || performance.now() - heldSince >= everyMs) flush();
  };
  return { onProgress, flush };
}

/**
 * Log fields as plain data: functions and classes cannot be cloned to another thread, and errors would lose
 * their code.
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
