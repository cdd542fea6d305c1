import type { Timer } from '../../core/lib/clock.ts';
import { releasedOnFailure } from '../../core/lib/lifecycle.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import type { ReloadReport } from '../../core/config/reload.ts';
import { openCoordinator, openEvents, requireBullmq } from '../../workers/coordinator/open-coordinator.ts';
import { newReadiness, type Readiness } from '../../api/daemon/readiness.ts';
import { freeBytes } from '../../workers/staging/staging-check.ts';
import { createWorkerMetrics, type WorkerMetrics } from '../../api/metrics/process-metrics.ts';
import {
  bootstrap,
  droppedEvents,
  openConfiguredTracing,
  openNotifier,
  runOnce,
  type Foundation,
  type ProgramNotifier,
  type ProgramOptions,
} from './bootstrap.ts';
import { findLastSuccesses, type Search } from './last-successes.ts';
import { createReloader, type Reloader, type ReloaderOptions } from './reloader.ts';
import { watchLoopLag, expectMetrics, metricsOptions } from './daemon-metrics.ts';
import { openWorkerListener, type WorkerListener } from './listener.ts';

export interface WorkerOptions extends ProgramOptions {
  /** Where to answer probes and Prometheus, in place of what the configuration says. */
  listen?: { host: string; port: number };
}

export interface Working {
  /** Base URL of the listener, ends with `/`; null if there is none. */
  url: string | null;
  /** Reads the configuration again; as `Reloader.reload`. */
  reload(): Promise<ReloadReport>;
  /**
   * Takes no more jobs, finishes running ones within `shutdown_timeout`, and returns the others to the queue.
   * Resolves with the ids of interrupted runs.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/** Everything that is open while the worker runs. */
interface Worker {
  foundation: Foundation;
  metrics: WorkerMetrics | null;
  tracing: { tracer: Tracer; close: () => Promise<void> };
  notifier: ProgramNotifier;
  events: { close: () => Promise<void> };
  listener: WorkerListener | null;
  coordinator: Coordinator;
  readiness: Readiness;
  shutdown: { isDraining: boolean };
  /** Of when destinations were published to before; null if it is not measured. */
  search: Search | null;
  reloader: Reloader;
  lag: Timer;
}

/**
 * Runs workers without an API: they publish what the APIs of other processes accept. Throws `config_invalid`,
 * `secrets_invalid`, or what opening Redis and the staging directories throws; nothing is left open then.
 */
export async function work(options: WorkerOptions): Promise<Working> {
  return releasedOnFailure(async (onFailure) => {
    const worker = await openWorker(options, onFailure);
    const { foundation, coordinator, listener } = worker;
    const { config, log } = foundation;
    await coordinator.start();
    listener?.open(worker);
    const url = listener?.url ?? null;
    if (url !== null) log.info({ url }, 'listening');
    log.info({ max_concurrency: config.server.http.maxConcurrency }, 'working');
    return { url, reload: () => worker.reloader.reload(), close: runOnce(() => stop(worker)) };
  });
}

/** Opens each part after those that it depends on. */
async function openWorker(
  { listen, ...options }: WorkerOptions,
  onFailure: (release: () => Promise<void>) => void,
): Promise<Worker> {
  const foundation = await bootstrap(options, (config) => requireBullmq(config, 'a worker'));
  const { config } = foundation;
  const tracing = await openConfiguredTracing(foundation);
  onFailure(() => tracing.close());
  const address = listen ?? config.server.worker.listen;
  const isMeasured = address !== null && config.server.metrics.enabled;
  const metrics = isMeasured ? createWorkerMetrics(metricsOptions(config)) : null;
  const onDropped = droppedEvents(foundation, metrics);
  const events = await openEvents({ ...foundation, onDropped });
  onFailure(() => events.close());
  const notifier = await openNotifier(foundation, {
    events,
    tracer: tracing.tracer,
    onOutcome: (outcome) => metrics?.recordDelivery(outcome),
  });
  onFailure(() => notifier.close());
  // A mistake in the address or the token fails here, before a job is taken.
  const listener = address === null ? null : await openWorkerListener(foundation, address, metrics);
  if (listener !== null) onFailure(() => listener.close());
  const coordinator = await openCoordinator({
    ...foundation,
    verbose: () => foundation.logging.shows('debug'),
    tracing,
    notify: (occurrence, trace) => notifier.notify(occurrence, trace),
    told: (redis) => events.told(redis),
    ...(metrics === null ? {} : { observer: metrics.runs }),
  });
  onFailure(async () => {
    await coordinator.close(0);
  });
  const shutdown = { isDraining: false };
  const readiness = newReadiness({
    ...foundation,
    checks: coordinator.checks,
    isDraining: () => shutdown.isDraining,
    weatherPulse: null,
  });
  metrics?.observe({
    threads: () => coordinator.threads(),
    readiness,
    freeBytes: () => freeBytes(config.server.staging.directory),
  });
  const search = metrics === null ? null : findLastSuccesses(foundation, coordinator.queue, metrics.runs);
  if (search !== null) onFailure(() => search.close());
  const lag = watchLag(foundation, metrics);
  onFailure(async () => lag.cancel());
  metrics?.configRead({ succeeded: true, at: foundation.clock.now() });
  const parts = { foundation, metrics, notifier, listener, coordinator, search };
  const reloader = reloaderOf(parts, options.onReload);
  return { ...parts, tracing, events, reloader, readiness, shutdown, lag };
}

/** What a reload changes of the worker, when nothing can fail any more. */
function reloaderOf(
  parts: Pick<Worker, 'foundation' | 'metrics' | 'notifier' | 'listener' | 'coordinator' | 'search'>,
  onReload: WorkerOptions['onReload'],
): Reloader {
  const { foundation, metrics, notifier, listener, coordinator, search } = parts;
  const take: ReloaderOptions['take'] = async (next) => {
    const access = listener?.prepare(next);
    const notifiers = await notifier.prepare(next);
    await coordinator.adopt(next.config);
    access?.replace();
    notifiers.replace();
    expectMetrics(metrics, next.config);
    search?.extend(next);
    foundation.logging.set(next.config.log);
    return notifiers.warnings;
  };
  return createReloader({ foundation, needs: 'worker', metrics, take, onReload });
}

function watchLag(foundation: Foundation, metrics: WorkerMetrics | null): Timer {
  return watchLoopLag({ ...foundation, record: (seconds) => metrics?.loopLag(seconds) });
}

async function stop({
  foundation,
  notifier,
  events,
  tracing,
  listener,
  coordinator,
  reloader,
  shutdown,
  search,
  lag,
}: Worker): Promise<{ unfinished: string[] }> {
  const { config, log } = foundation;
  shutdown.isDraining = true;
  await Promise.all([reloader.close(), search?.close()]);
  const answer = await coordinator.close(config.server.http.shutdownTimeoutMs);
  await listener?.close();
  await notifier.close();
  await tracing.close();
  await events.close();
  lag.cancel();
  log.info(answer, 'stopped');
  return answer;
}
