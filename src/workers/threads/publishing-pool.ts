import type { Clock } from '../../core/lib/clock.ts';
import { type ErrorRecord, recordedError, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import { noTracing, type Tracing } from '../../core/tracing/open-tracing.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { JobResult, PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import type { InspectionAnswer, InspectionRequest } from './inspection-request.ts';
import { ThreadPool, type ThreadStats, type WorkerPool, workerPool, type WorkerPoolOptions } from './pool.ts';
import type { ThreadData } from './publish-task.ts';
import type { ReleasesAnswer, ReleasesRequest } from './releases-request.ts';
import type { RunSettings } from './run-settings.ts';
import type { ThreadJob } from './thread-channel.ts';

export interface PublishingPoolOptions {
  settings: RunSettings;
  env: Readonly<Record<string, string>>;
  clock: Clock;
  log: Log;
  /**
   * Reports whether debug messages are logged. This is checked when a task starts, and its thread does not
   * send them otherwise.
   */
  verbose: () => boolean;
  /** Receives publication events for the notifiers. */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Traces runs. Default: no tracing. */
  tracing?: Pick<Tracing, 'tracer' | 'report'>;
  /** In tests, replaces the module that publishes with one that misbehaves. */
  workerFile?: URL;
}

/**
 * The time that an aborted publication has to release its lease before its thread is terminated, in
 * milliseconds.
 */
const abortGraceMs = 10_000;

/** The worker module in this folder, either compiled or from source. */
export const publishThread = new URL(
  import.meta.url.endsWith('.ts') ? './thread-from-source.mjs' : './thread.js',
  import.meta.url,
);

/**
 * The threads of a process that publishes. Every kind of work has its own threads, so that one kind never has
 * to wait for another. Threads are started on demand and terminated when idle.
 */
export class PublishingThreads {
  /** Has `max_concurrency` threads. */
  readonly #publishing: WorkerPool;
  /**
   * Has as many threads as there are for publishing, but at least two. They do not change anything or send
   * any events.
   */
  readonly #planning: WorkerPool;
  readonly #releases: ReleasesPool;
  readonly #inspections: AnsweringPool<InspectionRequest, InspectionAnswer>;

  constructor(options: PublishingPoolOptions) {
    const readOnly = poolOptions(
      { ...options, notify: () => undefined, tracing: noTracing },
      { dryRun: true },
    );
    this.#publishing = workerPool(poolOptions(options, { dryRun: false }));
    this.#planning = workerPool({ ...readOnly, threads: Math.max(2, readOnly.threads) });
    this.#releases = releasesPool(options);
    this.#inspections = answeringPool(readOnly, 'inspections', 'catalogs');
  }

  /** Publishes. Throws the same errors as `ThreadPool.process`. */
  publish(job: PublishJob, context: Parameters<JobProcessor>[1]): Promise<JobResult> {
    return this.#publishing.process(job, context);
  }

  /** Determines what `publish` would do. Throws the same errors as `ThreadPool.process`. */
  async plan(job: PublishJob, signal: AbortSignal): Promise<RunResult> {
    return (await this.#planning.process(job, { signal, onProgress: () => undefined })).run;
  }

  /** Lists or switches releases. Throws the same errors as `AnsweringPool.ask` and `answerReleases`. */
  releases(request: ReleasesRequest, signal: AbortSignal): Promise<ReleasesAnswer> {
    return this.#releases.ask(request, signal);
  }

  /** Reads a destination's catalog. Throws the same errors as `AnsweringPool.ask` and `answerInspection`. */
  inspect(request: InspectionRequest, signal: AbortSignal): Promise<InspectionAnswer> {
    return this.#inspections.ask(request, signal);
  }

  /** Returns statistics about the publishing threads. */
  stats(): ThreadStats {
    return this.#publishing.stats();
  }

  async close(): Promise<void> {
    const pools = [this.#publishing, this.#planning, this.#releases, this.#inspections];
    await Promise.all(pools.map((pool) => pool.close()));
  }
}

type ReleasesPool = AnsweringPool<ReleasesRequest, ReleasesAnswer>;

/**
 * Creates the threads that list and switch releases. Requests throw the same errors as `AnsweringPool.ask`
 * and `answerReleases`.
 */
export function releasesPool(options: PublishingPoolOptions): ReleasesPool {
  const own = poolOptions({ ...options, tracing: noTracing }, { dryRun: false });
  return answeringPool(own, 'releases', 'releases');
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
    onSpan: tracing.tracer.isOn ? (span) => tracing.report(span) : undefined,
  };
}

/**
 * The outcome of a request. If a request is refused, the caller gets the error. For the thread, it is just
 * another answer, so it is not logged as a failure.
 */
export type AnswerOutcome<Answer> = { answer: Answer } | { refused: ErrorRecord };

/** Returns the answer. Throws the error of a refused request. */
export function answerOf<Answer>(outcome: AnswerOutcome<Answer>): Answer {
  if ('answer' in outcome) return outcome.answer;
  throw recordedError(outcome.refused);
}

interface AnsweringPool<Request, Answer> {
  /**
   * Answers a request on a thread. Throws `server_busy` if too many requests are already waiting for a
   * thread. Also throws the task's own errors, and the same errors as `ThreadPool.process`.
   */
  ask(request: Request, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

const threads = 3;
const maxRequests = 32;
/**
 * The maximum number of waiting requests per pipeline. Without a limit, one pipeline with a stalled server
 * could fill up the queue.
 */
const maxRequestsOfPipeline = 24;

/**
 * Creates threads that answer requests about destinations. They are separate from the ones that publish.
 *
 * @param task The name of the export in the thread's module.
 * @param about What the requests are about, for error messages.
 */
function answeringPool<Request extends ThreadJob, Answer>(
  options: WorkerPoolOptions,
  task: string,
  about: string,
): AnsweringPool<Request, Answer> {
  const pool = new ThreadPool<Request, AnswerOutcome<Answer>>({ ...options, threads }, task);
  const requestCounts = new Map<string, number>();
  const askedOf = (pipelineId: string): number => requestCounts.get(pipelineId) ?? 0;
  const count = (pipelineId: string, change: 1 | -1): void => {
    const next = askedOf(pipelineId) + change;
    if (next === 0) requestCounts.delete(pipelineId);
    else requestCounts.set(pipelineId, next);
  };
  return {
    async ask(request, signal) {
      const { pipelineId } = request;
      const all = [...requestCounts.values()].reduce((sum, each) => sum + each, 0);
      if (all >= maxRequests || askedOf(pipelineId) >= maxRequestsOfPipeline)
        throw new WaybillError('server_busy', `too many requests about ${about} are being answered`, {
          hint: 'ask again later',
        });
      count(pipelineId, 1);
      try {
        return answerOf(await pool.process(request, { signal, onProgress: () => undefined }));
      } finally {
        count(pipelineId, -1);
      }
    },
    close: () => pool.close(),
  };
}
