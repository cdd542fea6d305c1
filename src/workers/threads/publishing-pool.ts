import type { Clock } from '../../core/lib/clock.ts';
import { type ErrorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { noTracing, type Tracing } from '../../core/tracing/open-tracing.ts';
import type { FinishedSpan } from '../../core/tracing/span.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { LookAnswer, LookRequest } from './look-request.ts';
import { threadPool, type WorkerPool, workerPool, type WorkerPoolOptions } from './pool.ts';
import type { ThreadData } from './publish-task.ts';
import type { ReleasesAnswer, ReleasesRequest } from './releases-request.ts';
import type { RunSettings } from './run-settings.ts';
import type { ThreadJob } from './thread-channel.ts';

export interface PublishingPoolOptions {
  settings: RunSettings;
  env: Readonly<Record<string, string>>;
  clock: Clock;
  log: Log;
  /** Whether the log shows debug lines. A thread sends them if it did when its task began. */
  verbose: () => boolean;
  /** Receives events of publications for the notifiers. */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Traces runs. Default: no tracing. */
  tracing?: Pick<Tracing, 'tracer' | 'report'>;
  /** Replaces the publishing module in tests of misbehaving threads. */
  workerFile?: URL;
}

/**
 * How long an aborted publication may take to release its lease before its thread is ended, in milliseconds.
 */
const abortGraceMs = 10_000;

/** The worker module next to this file, compiled or from source. */
export const publishThread = new URL(
  import.meta.url.endsWith('.ts') ? './thread-from-source.mjs' : './thread.js',
  import.meta.url,
);

/** The pool whose threads publish, `max_concurrency` of them. */
export function publishingPool(options: PublishingPoolOptions): WorkerPool {
  return workerPool(poolOptions(options, { dryRun: false }));
}

/**
 * Threads that plan publications, without changes or events: as many as publish, and at least two. Dry runs
 * and publications do not wait for each other. Threads start on demand and end when idle.
 */
export function planningPool(options: PublishingPoolOptions): WorkerPool {
  const alone = { ...options, notify: () => undefined, tracing: noTracing };
  const pool = poolOptions(alone, { dryRun: true });
  return workerPool({ ...pool, threads: Math.max(2, pool.threads) });
}

/** Throws as `AnsweringPool.ask` and `answerReleases`. */
export type ReleasesPool = AnsweringPool<ReleasesRequest, ReleasesAnswer>;

/** Threads that read and switch releases, separate from all others. */
export function releasesPool(options: PublishingPoolOptions): ReleasesPool {
  const own = poolOptions({ ...options, tracing: noTracing }, { dryRun: false });
  return answeringPool(own, 'releases', 'releases');
}

/** Throws as `AnsweringPool.ask` and `answerLook`. */
export type LooksPool = AnsweringPool<LookRequest, LookAnswer>;

/** Threads that read catalogs of destinations. They send no events. */
export function looksPool(options: PublishingPoolOptions): LooksPool {
  const alone = { ...options, notify: () => undefined, tracing: noTracing };
  return answeringPool(poolOptions(alone, { dryRun: true }), 'looks', 'catalogs');
}

function poolOptions(options: PublishingPoolOptions, { dryRun }: { dryRun: boolean }): WorkerPoolOptions {
  const { settings, env, clock, log, verbose, notify, tracing = noTracing } = options;
  return {
    clock,
    log,
    file: options.workerFile ?? publishThread,
    threads: settings.get().server.http.maxConcurrency,
    data: { env: { ...env }, dryRun } satisfies ThreadData,
    configOf: (pipelineId) => settings.ofPipeline(pipelineId),
    verbose,
    env,
    graceMs: abortGraceMs,
    notify,
    ...(tracing.tracer.isOn ? { onSpan: (span: FinishedSpan) => tracing.report(span) } : {}),
  };
}

/** A refusal is also an answer: the caller gets the error, and the log reports no failed task. */
export type AnswerOutcome<Answer> = { answer: Answer } | { refused: ErrorRecord };

interface AnsweringPool<Request, Answer> {
  /**
   * Answers on a thread. Throws `server_busy` if too many requests wait for a thread, the refusals of the
   * task, and as `ThreadPool.process`.
   */
  ask(request: Request, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

const threads = 3;
const maxRequests = 32;
/** The limit per pipeline, so that one with a stalled server does not fill the queue. */
const maxRequestsOfPipeline = 24;

/**
 * Threads that answer requests about destinations, separate from publishing threads.
 *
 * @param task the export of the thread's module
 * @param about the subject of the requests, for a refusal
 */
function answeringPool<Request extends ThreadJob, Answer>(
  options: WorkerPoolOptions,
  task: string,
  about: string,
): AnsweringPool<Request, Answer> {
  const pool = threadPool<Request, AnswerOutcome<Answer>>({ ...options, threads }, task);
  const asked = new Map<string, number>();
  const askedOf = (pipelineId: string): number => asked.get(pipelineId) ?? 0;
  const count = (pipelineId: string, change: 1 | -1): void => {
    const next = askedOf(pipelineId) + change;
    if (next === 0) asked.delete(pipelineId);
    else asked.set(pipelineId, next);
  };
  return {
    async ask(request, signal) {
      const { pipelineId } = request;
      const all = [...asked.values()].reduce((sum, each) => sum + each, 0);
      if (all >= maxRequests || askedOf(pipelineId) >= maxRequestsOfPipeline)
        throw new WaybillError('server_busy', `too many requests about ${about} are being answered`, {
          hint: 'ask again later',
        });
      count(pipelineId, 1);
      try {
        const outcome = await pool.process(request, { signal, onProgress: () => undefined });
        if ('answer' in outcome) return outcome.answer;
        const { code, message, hint } = outcome.refused;
        throw new WaybillError(code, message, hint === null ? {} : { hint });
      } finally {
        count(pipelineId, -1);
      }
    },
    close: () => pool.close(),
  };
}
