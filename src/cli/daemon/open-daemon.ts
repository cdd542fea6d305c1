import { quotasOf } from './quotas.ts';
import type { Timer } from '../../core/lib/clock.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { replaceable, type Replaceable } from '../../core/lib/current.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import {
  openConfiguredStore,
  openEndedSessions,
  openCoordinator,
  openEvents,
  requireBullmq,
} from '../../workers/coordinator/open-coordinator.ts';
import { freeBytes } from '../../workers/staging/staging-check.ts';
import type { EndedSessions } from '../../workers/queue/ended-sessions.ts';
import type { QueueStore } from '../../workers/embedded/queue-store.ts';
import { listen, type HttpServer } from '../../api/http/listen.ts';
import { newReadiness, type Readiness } from '../../api/daemon/readiness.ts';
import { createScheduler, type Scheduler } from '../../workers/schedule/scheduler.ts';
import { startTidying, type Tidying } from '../../workers/coordinator/tidying.ts';
import { contentBounds } from '../../workers/staging/content-bounds.ts';
import { openDisk, type OpenedDisk } from '../../workers/disk/open-disk.ts';
import { openContentStore, type ContentStore } from '../../workers/staging/content-store.ts';
import { sceneMapPool, type SceneMapPool } from '../../workers/threads/scene-map-pool.ts';
import { openPartialUploads, type PartialUploads } from '../../workers/staging/partial-uploads.ts';
import { createStreams, type Streams } from '../../api/runs/event-stream.ts';
import { createMetrics, type Metrics } from '../../api/metrics/metrics.ts';
import { expectMetrics, metricsOptions, watchLoopLag } from './daemon-metrics.ts';
import type { OpenedWeather } from '../../weather/api/open-weather.ts';
import { inheritedSocket } from '../process/systemd.ts';
import { newEntrance, type Entrance } from './listener.ts';
import { findLastSuccesses, type Search } from './last-successes.ts';
import { openConfiguredWeather } from './open-weather.ts';
import type { ApiAccess } from '../../api/ports.ts';
import { resolveAccess } from './api-ports.ts';
import { createReloader, type Reloader, type ReloaderOptions } from './reloader.ts';
import {
  bootstrap,
  droppedEvents,
  openConfiguredTracing,
  openNotifier,
  type Foundation,
  type ProgramNotifier,
  type ProgramOptions,
} from './bootstrap.ts';

export interface DaemonOptions extends ProgramOptions {
  /** Whether this process publishes too, as by default; otherwise workers of other processes do. */
  workers?: boolean;
}

/** Everything that is open while the daemon runs. */
export interface Daemon {
  foundation: Foundation;
  configured: Replaceable<ApiAccess>;
  metrics: Metrics | null;
  /** Null unless the queue is embedded. */
  store: QueueStore | null;
  tracing: { tracer: Tracer; close: () => Promise<void> };
  notifier: ProgramNotifier;
  events: { close: () => Promise<void> };
  server: HttpServer;
  entrance: Entrance;
  weather: OpenedWeather | null;
  coordinator: Coordinator;
  partialUploads: PartialUploads;
  content: ContentStore;
  stagingDisk: OpenedDisk;
  scheduler: Scheduler;
  /** Null if this process publishes nothing. */
  tidying: Tidying | null;
  streams: Streams;
  sceneMaps: SceneMapPool;
  endedSessions: EndedSessions;
  readiness: Readiness;
  shutdown: Shutdown;
  /** Of when destinations were published to before; null if this process publishes nothing. */
  search: Search | null;
  reloader: Reloader;
  lag: Timer;
}

/** Opens each part after those that it depends on. */
export async function openDaemon(
  { workers = true, ...options }: DaemonOptions,
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
  const events = await openEvents({ ...foundation, store, onDropped });
  onFailure(() => events.close());
  const notifier = await openNotifier(foundation, {
    events,
    tracer: tracing.tracer,
    onOutcome: (outcome) => metrics?.recordDelivery(outcome),
  });
  onFailure(() => notifier.close());
  const configured = replaceable(resolveAccess(foundation));

  // Listening comes before the sweep of staging: a second daemon with the same configuration fails here,
  // before it removes anything.
  const entrance = newEntrance();
  const { onAccepted } = foundation;
  const inherited = inheritedSocket(options.env, process.pid);
  const http = { ...config.server.http, onAccepted, inherited };
  const server = await listen(entrance.listener, http, { ...foundation, metrics });
  onFailure(() => server.close());
  const weather = await openConfiguredWeather(foundation, metrics);
  if (weather !== null) onFailure(() => weather.close());
  const stagingDisk = openDisk(foundation);
  onFailure(() => stagingDisk.close(0));
  const { disk } = stagingDisk;
  const coordinator = await openCoordinator({
    ...foundation,
    disk,
    store,
    verbose: () => foundation.logging.shows('debug'),
    tracing,
    notify: (occurrence, trace) => notifier.notify(occurrence, trace),
    told: (redis) => events.told(redis),
    ...(metrics === null ? {} : { observer: metrics.runs }),
  });
  onFailure(async () => {
    await coordinator.close(0);
  });
  events.attach(coordinator.queue);
  const partialUploads = await openPartialUploads({
    ...foundation,
    staging: config.server.staging.directory,
    settings: { ...config.server.resumable, ...quotasOf(config).partialUploads },
  });
  onFailure(() => partialUploads.close());
  const content = await openContentStore({
    ...foundation,
    disk,
    staging: config.server.staging.directory,
    ...contentBounds(
      config.server.staging.keep,
      (pipelineId) => configured.get().uploadPipelines.get(pipelineId)?.maxUploadSize ?? null,
    ),
  });
  onFailure(() => content.close());
  const scheduler = createScheduler({
    ...foundation,
    queue: coordinator.queue,
    tracer: tracing.tracer,
    ...(metrics === null ? {} : { observer: metrics.schedules }),
  });
  onFailure(() => scheduler.close());
  const tidying = workers
    ? startTidying({ ...foundation, ...coordinator, pipelines: config.pipelines })
    : null;
  if (tidying !== null) onFailure(() => tidying.close());
  const lag = watchLoopLag({ ...foundation, record: (seconds) => metrics?.loopLag(seconds) });
  onFailure(async () => lag.cancel());
  const { driver } = config.server.queue;
  const { maxStreams, maxStreamsPerClient } = config.server.http;
  const streams = createStreams(maxStreams, maxStreamsPerClient);
  const endedSessions = await openEndedSessions({ ...foundation, store });
  onFailure(async () => endedSessions.close());
  const sceneMaps = sceneMapPool(foundation);
  onFailure(() => sceneMaps.close());
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
    content: () => content.stats(),
    freeBytes: () => freeBytes(config.server.staging.directory),
    weather: weatherPulse,
    undelivered: () => events.undelivered.counts(),
    notifiers: () => configured.get().notifierIds,
  });
  const search =
    metrics === null || !workers ? null : findLastSuccesses(foundation, coordinator.queue, metrics.runs);
  if (search !== null) onFailure(() => search.close());
  metrics?.configRead({ succeeded: true, at: foundation.clock.now() });
  const parts = {
    ...{ foundation, configured, metrics, notifier, coordinator, partialUploads, scheduler, tidying, search },
  };
  const reloader = reloaderOf(parts, options.onReload);
  return {
    ...parts,
    tracing,
    events,
    store,
    content,
    stagingDisk,
    server,
    entrance,
    weather,
    streams,
    sceneMaps,
    endedSessions,
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
    'foundation' | 'configured' | 'metrics' | 'notifier' | 'coordinator' | 'scheduler' | 'tidying' | 'search'
  >,
  onReload: DaemonOptions['onReload'],
): Reloader {
  const { foundation, configured, metrics, notifier, coordinator, scheduler, tidying, search } = parts;
  const take: ReloaderOptions['take'] = async (next) => {
    const access = resolveAccess(next);
    const notifiers = await notifier.prepare(next);
    await coordinator.adopt(next.config);
    configured.replace(access);
    notifiers.replace();
    scheduler.update(next.config.pipelines);
    tidying?.update(next.config.pipelines);
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
