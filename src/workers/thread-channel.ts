import type { MessagePort } from 'node:worker_threads';
import { errorRecord, WaybillError, type ErrorRecord } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Occurrence } from '../core/notify/event.ts';
import type { JobProgress, JobResult, PublishJob } from './job.ts';

/** What crosses between the pool and its threads. Both ends of the protocol are told here and nowhere else. */
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
  | { type: 'progress'; progress: JobProgress }
  | { type: 'occurrence'; occurrence: Occurrence }
  | { type: 'log'; level: keyof Log; fields: object; message: string };

const kinds: Record<FromThread['type'], string> = {
  alive: 'type',
  progress: 'progress',
  occurrence: 'occurrence',
  log: 'fields',
};

/** Whether what came out of a thread is one of its messages. */
export function isFromThread(message: unknown): message is FromThread {
  if (typeof message !== 'object' || message === null || !('type' in message)) return false;
  const { type } = message;
  if (typeof type !== 'string' || !Object.hasOwn(kinds, type)) return false;
  const content: unknown = Reflect.get(message, kinds[type as FromThread['type']]);
  return type === 'alive' || (typeof content === 'object' && content !== null);
}

export interface ThreadWork {
  signal: AbortSignal;
  onProgress: (progress: JobProgress) => void;
  /** Writes through the daemon's own logger, which adds the run's id. */
  log: Log;
  /** Delivered by the daemon itself: a run is over when its bundle is published, and not when everyone was told. */
  notify: (occurrence: Occurrence) => void;
}

// A message for each chunk would cost more than the chunk.
const bytesPerMessage = 1024 * 1024;
const signOfLifeMs = 5_000;

/** The thread's end: runs `work` on the task's job, with abort, progress and log wired to the pool. Never rejects. */
export async function answerTask(
  { job, port }: ThreadTask,
  verbose: boolean,
  work: (job: PublishJob, context: ThreadWork) => Promise<JobResult>,
): Promise<ThreadOutcome> {
  const abort = new AbortController();
  const post = (message: FromThread): void => port.postMessage(message);
  port.on('message', ({ reason }: ToThread) => abort.abort(new WaybillError('aborted', reason)));
  const { onProgress, flush } = coalesceBytes(
    (progress) => post({ type: 'progress', progress }),
    bytesPerMessage,
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

/** Adds up neighbouring `bytes` of one destination until they are `limit`; everything else goes out at once, in order. */
export function coalesceBytes(
  emit: (progress: JobProgress) => void,
  limit: number,
): { onProgress: (progress: JobProgress) => void; flush: () => void } {
  let held: { type: 'bytes'; destinationId: string; count: number } | undefined;
  const flush = (): void => {
    const bytes = held;
    held = undefined;
    if (bytes !== undefined) emit(bytes);
  };
  const onProgress = (progress: JobProgress): void => {
    if (progress.type !== 'bytes') {
      flush();
      emit(progress);
      return;
    }
    if (held?.destinationId !== progress.destinationId) flush();
    held = { ...progress, count: progress.count + (held?.count ?? 0) };
    if (held.count >= limit) flush();
  };
  return { onProgress, flush };
}

/** Log fields as plain data: functions and classes cannot be cloned to another thread, and errors would lose their code. */
function plainFields(fields: object): object {
  return JSON.parse(
    JSON.stringify(fields, (_key, value: unknown) => (value instanceof Error ? plainError(value) : value)),
  ) as object;
}

function plainError(error: Error): object {
  const code = 'code' in error ? error.code : undefined;
  return { type: error.name, code, message: error.message, stack: error.stack, cause: error.cause };
}
