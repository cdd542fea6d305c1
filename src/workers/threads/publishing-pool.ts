import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { WaybillError } from '../../core/errors.ts';
import type { FinishedSpan } from '../../core/tracing/span.ts';
import { noTracing, type Tracing } from '../../core/tracing/open-tracing.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { RunSettings } from '../run-settings.ts';
import type { ReleasesAnswer, ReleasesRequest } from '../releases-request.ts';
import { threadPool, workerPool, type WorkerPool, type WorkerPoolOptions } from './pool.ts';
import type { ThreadData } from './publish-task.ts';
import type { ReleasesOutcome } from './releases-task.ts';

export interface PublishingPoolOptions {
  settings: RunSettings;
  env: Readonly<Record<string, string>>;
  clock: Clock;
  log: Log;
  /** Whether the log shows debug lines; a thread sends them if it did so when its task began. */
  verbose: () => boolean;
  /** Receives what happened in publications, for notifiers. */
  notify: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Where runs are traced; by default nowhere. */
  tracing?: Pick<Tracing, 'tracer' | 'report'>;
  /** Another module than the publishing one, for tests of misbehaving threads. */
  workerFile?: URL;
}

/** How long an aborted publication may take to clean up and release its lease before its thread is ended. */
const abortGraceMs = 10_000;

/** The worker module beside this file, compiled or from source. */
const publishThread = new URL(
  import.meta.url.endsWith('.ts') ? './thread-from-source.mjs' : './thread.js',
  import.meta.url,
);

/** The pool whose threads publish, `max_concurrency` of them. */
export function publishingPool(options: PublishingPoolOptions): WorkerPool {
  return workerPool(poolOptions(options, { dryRun: false }));
}

/**
 * As many threads that decide what a publication would do, change nothing and notify nobody. Apart from those
 * that publish, so that a dry run neither waits for a publication nor keeps one waiting. They are started
 * when there is a dry run, and end when idle.
 */
export function planningPool(options: PublishingPoolOptions): WorkerPool {
  const alone = { ...options, notify: () => undefined, tracing: noTracing };
  return workerPool(poolOptions(alone, { dryRun: true }));
}

export interface ReleasesPool {
  /**
   * Answers on a thread. Throws `server_busy` if too many wait for one, and as `answerReleases` and
   * `ThreadPool.process` do.
   */
  ask(request: ReleasesRequest, signal: AbortSignal): Promise<ReleasesAnswer>;
  close(): Promise<void>;
}

const releasesThreads = 2;
const mostReleasesRequests = 32;

/** The threads that look at releases and switch between them: apart from all others, as a dry run is. */
export function releasesPool(options: PublishingPoolOptions): ReleasesPool {
  const pool = threadPool<ReleasesRequest, ReleasesOutcome>(
    { ...poolOptions({ ...options, tracing: noTracing }, { dryRun: false }), threads: releasesThreads },
    'releases',
  );
  let asked = 0;
  return {
    async ask(request, signal) {
      if (asked >= mostReleasesRequests)
        throw new WaybillError('server_busy', 'too many requests about releases are being answered', {
          hint: 'ask again later',
        });
      asked += 1;
      try {
        const outcome = await pool.process(request, { signal, onProgress: () => undefined });
        if ('answer' in outcome) return outcome.answer;
        const { code, message, hint } = outcome.refused;
        throw new WaybillError(code, message, hint === null ? {} : { hint });
      } finally {
        asked -= 1;
      }
    },
    close: () => pool.close(),
  };
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
