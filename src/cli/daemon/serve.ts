import type { Timer } from '../../core/clock.ts';
import { WaybillError } from '../../core/errors.ts';
import { releasedOnFailure } from '../../core/lifecycle.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import type { ReloadReport } from '../../core/config/reload.ts';
import { replaceable, type Replaceable } from '../../core/current.ts';
import type { Coordinator } from '../../workers/coordinator.ts';
import {
  openConfiguredStore,
  openCoordinator,
  openUndelivered,
  requireBullmq,
} from '../../workers/open-coordinator.ts';
import { freeBytes } from '../../workers/staging-check.ts';
import type { QueueStore } from '../../workers/embedded/queue-store.ts';
import { createApp } from '../../api/app.ts';
import { listen, type HttpServer } from '../../api/http/listen.ts';
import { newReadiness, type Readiness } from '../../api/health/readiness.ts';
import { createScheduler, type Scheduler } from '../../workers/schedule/scheduler.ts';
import { openPartialUploads, type PartialUploads } from '../../workers/partial/partial-uploads.ts';
import { createStreams, type Streams } from '../../api/live/streams.ts';
import { createMetrics, type Metrics } from '../../api/metrics/metrics.ts';
import { expectMetrics, metricsOptions } from './metrics-options.ts';
import { withDirectReads } from '../../api/weather/direct-reads.ts';
import type { OpenedWeather } from '../../api/weather/open-weather.ts';
import { newEntrance, type Entrance } from './entrance.ts';
import { findLastSuccesses, type Search } from './last-successes.ts';
import { watchLoopLag } from './loop-lag.ts';
import { openConfiguredWeather } from './open-weather.ts';
import type { ApiAccess } from '../../api/ports.ts';
import { apiPorts, resolveAccess } from './api-ports.ts';
import { createReloader, type Reloader, type ReloaderOptions } from './reloader.ts';
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

export interface ServeOptions extends ProgramOptions {
  /** Called once, with the base URL, when the daemon answers requests. */
  onListening?: (url: string) => void;
  /** Whether this process publishes too, as by default; otherwise workers of other processes do. */
  workers?: boolean;
}

export interface Served {
  /** Base URL, with the base path; ends with `/`. */
  url: string;
  /** Reads the configuration again; as `Reloader.reload`. */
  reload(): Promise<ReloadReport>;
  /**
   * Takes no more uploads, publishes accepted ones within `shutdown_timeout`, and stops. Resolves with the
   * ids of interrupted runs. A second call waits for the first.
   */
  close(): Promise<{ unfinished: string[] }>;
}

/** Everything that is open while the daemon runs. */
interface Daemon {
  foundation: Foundation;
  configured: Replaceable<ApiAccess>;
  metrics: Metrics | null;
  /** Null unless the queue is embedded. */
  store: QueueStore | null;
  tracing: { tracer: Tracer; close: () => Promise<void> };
  notifier: ProgramNotifier;
  undelivered: { close: () => Promise<void> };
  server: HttpServer;
  entrance: Entrance;
  weather: OpenedWeather | null;
  coordinator: Coordinator;
  partialUploads: PartialUploads;
  scheduler: Scheduler;
  streams: Streams;
  readiness: Readiness;
  shutdown: Shutdown;
  /** Of when destinations were published to before; null if this process publishes nothing. */
  search: Search | null;
  reloader: Reloader;
  lag: Timer;
}

/**
 * Runs the daemon. Throws `config_invalid`, `secrets_invalid`, or what opening the databases and the queue
 * throws; nothing is left open then. Signals are the caller's business: it calls `close`.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { workers = true, onListening } = options;
  return releasedOnFailure(async (onFailure) => {
    const daemon = await openDaemon(options, onFailure);
    const { foundation, configured, coordinator, scheduler, server, entrance, weather, shutdown, reloader } =
      daemon;
    const { config, log } = foundation;
    const reload = (): Promise<ReloadReport> => reloader.reload();
    const ports = apiPorts(foundation, {
      ...daemon,
      tracer: daemon.tracing.tracer,
      reload,
      weather: weather?.service ?? null,
      weatherPulse: weather?.pulse ?? null,
      stopping: shutdown.uploads.signal,
      draining: shutdown.draining.signal,
    });
    if (workers) await coordinator.start();
    scheduler.update(config.pipelines);
    entrance.open(withDirectReads(createApp(ports), ports));
    const url = `${server.origin}${config.server.http.basePath}`;
    log.info({ url, pipelines: [...configured.get().uploadPipelines.keys()] }, 'listening');
    onListening?.(url);
    return { url, reload, close: runOnce(() => stop(daemon)) };
  });
}

/** Opens each part after those that it depends on. */
async function openDaemon(
  { workers = true, ...options }: ServeOptions,
  onFailure: (release: () => Promise<void>) => void,
): Promise<Daemon> {
  const foundation = await bootstrap(options, (config) => {
    if (!workers) requireBullmq(config, 'an API without workers');
  });
  const { config } = foundation;
  const tracing = await openConfiguredTracing(foundation);
  onFailure(() => tracing.close());
  const metrics = config.server.metrics.enabled ? createMetrics(metricsOptions(config)) : null;
  const onDropped = droppedEvents(foundation, metrics);
  const store = await openConfiguredStore({ ...foundation, onDropped });
  if (store !== null) onFailure(() => store.close());
  const undelivered = await openUndelivered({ ...foundation, store, onDropped });
  onFailure(() => undelivered.close());
  const notifier = await openNotifier(foundation, {
    undelivered: undelivered.events,
    tracer: tracing.tracer,
    outbox: store?.outbox,
    onOutcome: (outcome) => metrics?.recordDelivery(outcome),
  });
  onFailure(() => notifier.close());
  const configured = replaceable(resolveAccess(foundation));

  // Listening comes before the sweep of staging: a second daemon with the same configuration fails here,
  // before it removes anything.
  const entrance = newEntrance();
  const server = await listen(entrance.listener, config.server.http, { ...foundation, metrics });
  onFailure(() => server.close());
  const weather = await openConfiguredWeather(foundation, metrics);
  if (weather !== null) onFailure(() => weather.close());
  const coordinator = await openCoordinator({
    ...foundation,
    store,
    verbose: () => foundation.logging.shows('debug'),
    tracing,
    notify: (occurrence, traceparent) => notifier.notify(occurrence, traceparent),
    ...(metrics === null ? {} : { observer: metrics.runs }),
  });
  onFailure(async () => {
    await coordinator.close(0);
  });
  const partialUploads = await openPartialUploads({
    ...foundation,
    staging: config.server.staging.directory,
    settings: config.server.resumable,
  });
  onFailure(() => partialUploads.close());
  const scheduler = createScheduler({
    ...foundation,
    queue: coordinator.queue,
    tracer: tracing.tracer,
    ...(metrics === null ? {} : { observer: metrics.schedules }),
  });
  onFailure(() => scheduler.close());
  const lag = watchLoopLag({ ...foundation, record: (seconds) => metrics?.loopLag(seconds) });
  onFailure(async () => lag.cancel());
  const { driver } = config.server.queue;
  const streams = createStreams(config.server.http.maxStreams);
  const shutdown = newShutdown();
  const weatherPulse = weather?.pulse ?? null;
  const isDraining = (): boolean => shutdown.draining.signal.aborted;
  const readiness = newReadiness({ ...foundation, checks: coordinator.checks, isDraining, weatherPulse });
  metrics?.observe({
    ...coordinator,
    driver,
    pipelines: () => configured.get().pipelineIds,
    connections: server.connections,
    streams: streams.stats,
    readiness,
    partialUploads: () => partialUploads.stats(),
    freeBytes: () => freeBytes(config.server.staging.directory),
    weather: weatherPulse,
    undelivered: () => undelivered.events.counts(),
    notifiers: () => configured.get().notifierIds,
  });
  const search =
    metrics === null || !workers ? null : findLastSuccesses(foundation, coordinator.queue, metrics.runs);
  if (search !== null) onFailure(() => search.close());
  metrics?.configRead({ succeeded: true, at: foundation.clock.now() });
  const parts = { foundation, configured, metrics, notifier, coordinator, partialUploads, scheduler, search };
  const reloader = reloaderOf(parts, options.onReload);
  return {
    ...parts,
    tracing,
    undelivered,
    store,
    server,
    entrance,
    weather,
    streams,
    readiness,
    shutdown,
    reloader,
    lag,
  };
}

/** What a reload changes of the daemon, when nothing can fail any more. */
function reloaderOf(
  parts: Pick<
    Daemon,
    'foundation' | 'configured' | 'metrics' | 'notifier' | 'coordinator' | 'scheduler' | 'search'
  >,
  onReload: ServeOptions['onReload'],
): Reloader {
  const { foundation, configured, metrics, notifier, coordinator, scheduler, search } = parts;
  const take: ReloaderOptions['take'] = async (next) => {
    const access = resolveAccess(next);
    const notifiers = await notifier.prepare(next);
    await coordinator.adopt(next.config);
    configured.replace(access);
    notifiers.replace();
    scheduler.update(next.config.pipelines);
    expectMetrics(metrics, next.config);
    search?.extend(next);
    foundation.logging.set(next.config.log);
    return notifiers.warnings;
  };
  return createReloader({ foundation, needs: 'api', metrics, take, onReload });
}

interface Shutdown {
  /** Aborted when the daemon refuses new uploads. */
  draining: AbortController;
  /** Aborted when uploads that are still being received must end. */
  uploads: AbortController;
}

function newShutdown(): Shutdown {
  return { draining: new AbortController(), uploads: new AbortController() };
}

async function stop(daemon: Daemon): Promise<{ unfinished: string[] }> {
  const { foundation, coordinator, scheduler, server, weather, notifier, shutdown } = daemon;
  const { config, log } = foundation;
  const { shutdownTimeoutMs } = config.server.http;
  shutdown.draining.abort();
  await daemon.reloader.close();
  await scheduler.close();
  await daemon.search?.close();
  const { unfinished } = await coordinator.queue.close(shutdownTimeoutMs);
  shutdown.uploads.abort(
    new WaybillError('shutting_down', 'the daemon stopped before the upload was whole', {
      hint: 'upload again shortly',
    }),
  );
  await server.close();
  await coordinator.close(shutdownTimeoutMs);
  await daemon.partialUploads.close();
  await weather
    ?.close()
    .catch((error: unknown) => log.error({ err: error }, 'closing the weather databases failed'));
  await notifier.close();
  await daemon.tracing.close();
  await daemon.undelivered.close();
  await daemon.store?.close();
  daemon.lag.cancel();
  log.info({ unfinished }, 'stopped');
  return { unfinished };
}
