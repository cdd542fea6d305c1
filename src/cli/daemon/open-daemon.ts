import type { ApiAccess } from '../../api/api-services.ts';
import { newReadiness, type Readiness } from '../../api/daemon/readiness.ts';
import { type HttpServer, listen } from '../../api/http/listen.ts';
import { createMetrics, type Metrics } from '../../api/metrics/metrics.ts';
import { createStreams, type Streams } from '../../api/runs/event-stream.ts';
import type { Timer } from '../../core/lib/clock.ts';
import { type Replaceable, replaceable } from '../../core/lib/current.ts';
import type { Releaser } from '../../core/lib/lifecycle.ts';
import type { OpenedWeather } from '../../weather/api/open-weather.ts';
import type { Coordinator } from '../../workers/coordinator/coordinator.ts';
import { auditChecks } from '../../workers/coordinator/health-checks.ts';
import { openRevokedSessions, requireBullmq } from '../../workers/coordinator/open-coordinator.ts';
import { createRunLogs, type RunLogs } from '../../workers/coordinator/run-logs.ts';
import { startTidying, type Tidying } from '../../workers/coordinator/tidying.ts';
import { openDisk, type OpenedDisk } from '../../workers/disk/open-disk.ts';
import type { RevokedSessions } from '../../workers/queue/revoked-sessions.ts';
import { createScheduler, type Scheduler } from '../../workers/schedule/scheduler.ts';
import { contentLimits } from '../../workers/staging/content-limits.ts';
import { type ContentStore, openContentStore } from '../../workers/staging/content-store.ts';
import { PartialUploads } from '../../workers/staging/partial-uploads.ts';
import { freeBytes } from '../../workers/staging/staging-check.ts';
import { type SceneMapPool, sceneMapPool } from '../../workers/threads/scene-map-pool.ts';
import { inheritedSocket } from '../process/systemd.ts';
import { quotasOf, resolveAccess } from './access.ts';
import { auditTriggers } from './audit-calls.ts';
import { bootstrap, type ProgramContext, type ProgramOptions } from './bootstrap.ts';
import { metricsOptions, watchLoopLag } from './daemon-metrics.ts';
import { findLastSuccesses, type SuccessSearch } from './last-successes.ts';
import { newRequestGate, type RequestGate } from './listener.ts';
import {
  type CloseOnError,
  closeOnError,
  openPublishing,
  openReporting,
  type Reporting,
} from './publishing.ts';
import { Reloader } from './reloader.ts';

export interface DaemonOptions extends ProgramOptions {
  /**
   * Whether this process also publishes. If not, this is left to workers in other processes. Default: true.
   */
  workers?: boolean;
}

/** The parts that metrics observe or a reload changes. */
interface DaemonParts {
  foundation: ProgramContext;
  configured: Replaceable<ApiAccess>;
  metrics: Metrics | null;
  reporting: Reporting;
  server: HttpServer;
  requestGate: RequestGate;
  weather: OpenedWeather | null;
  coordinator: Coordinator;
  runLines: RunLogs;
  uploads: Uploads;
  background: Background;
  scheduler: Scheduler;
  streams: Streams;
  readiness: Readiness;
}

export interface Daemon extends DaemonParts {
  sceneMaps: SceneMapPool;
  revokedSessions: RevokedSessions;
  shutdown: Shutdown;
  reloader: Reloader;
}

/** Opens the parts of the daemon. Each one is opened after the parts that it needs. */
export async function openDaemon(
  { workers = true, ...options }: DaemonOptions,
  onFailure: (release: Releaser) => void,
): Promise<Daemon> {
  const own = closeOnError(onFailure);
  const foundation = await bootstrap(options, (config) => {
    if (!workers) requireBullmq(config, 'an API without workers');
  });
  const { config } = foundation;
  const metrics = config.server.metrics.enabled ? createMetrics(metricsOptions(config)) : null;
  const reporting = await openReporting(foundation, metrics, own);
  const configured = replaceable(resolveAccess(foundation));

  // Listen before cleaning up staging. If a second daemon is started with the same configuration, it fails
  // here, before it can delete files of the first.
  const requestGate = newRequestGate();
  const inherited = inheritedSocket(options.env, process.pid);
  const http = { ...config.server.http, onAccepted: foundation.onAccepted, inherited };
  const server = own(await listen(requestGate.listener, http, { ...foundation, metrics }));

  const weather = own(await openConfiguredWeather(foundation, metrics));
  const stagingDisk = own(openDisk(foundation));
  const runLines = createRunLogs(foundation);
  const publishing = { ...foundation, log: runLines.log };
  const coordinator = await openPublishing(publishing, reporting, { metrics, stagingDisk }, own);
  reporting.events.attach(coordinator.queue);
  const uploads = await openUploads(foundation, configured, stagingDisk, own);
  const { tracer } = reporting.tracing;
  const { queue } = coordinator;
  const triggers = auditTriggers(queue.triggers, reporting.audit);
  const starting = { queue: { triggers }, tracer, observer: metrics?.schedules };
  const scheduler = own(createScheduler({ ...foundation, ...starting }));
  const background = startBackground(foundation, { metrics, coordinator, workers }, own);
  onFailure(() => background.lag.cancel());
  const revokedSessions = await openRevokedSessions({ ...foundation, store: reporting.store });
  onFailure(() => revokedSessions.close());
  const sceneMaps = own(sceneMapPool(foundation));
  const shutdown = { draining: new AbortController(), uploads: new AbortController() };
  const readiness = newReadiness({
    ...foundation,
    checks: [
      ...coordinator.checks,
      ...auditChecks(config.audit, { ...foundation, trail: reporting.audit, admitsActs: true }),
    ],
    isDraining: () => shutdown.draining.signal.aborted,
    weatherHealth: weather?.health ?? null,
  });
  const streams = createStreams(config.server.http.maxStreams, config.server.http.maxStreamsPerClient);
  const parts = { foundation, configured, metrics, reporting, server, weather, coordinator, uploads };
  const running = { ...parts, runLines, requestGate, scheduler, background, streams, readiness };
  if (metrics !== null) observe(metrics, running);
  const reloader = reloaderOf(running, options.onReload);
  return { ...running, sceneMaps, revokedSessions, shutdown, reloader };
}

/**
 * Opens the weather reader of the daemon. If no database is configured, returns null without loading any
 * modules. If a database cannot be reached, only weather requests are affected, because publishing does not
 * need it.
 */
async function openConfiguredWeather(
  foundation: ProgramContext,
  metrics: Metrics | null,
): Promise<OpenedWeather | null> {
  const { config, secrets } = foundation;
  if (config.databases.length === 0) return null;
  const { openWeather, requireForDatabases } = await import('../../weather/api/open-weather.ts');
  await requireForDatabases(config, secrets);
  return openWeather({ ...foundation, metrics, allowUnreachable: true });
}

interface Uploads {
  stagingDisk: OpenedDisk;
  partialUploads: PartialUploads;
  content: ContentStore;
}

async function openUploads(
  foundation: ProgramContext,
  configured: Replaceable<ApiAccess>,
  stagingDisk: OpenedDisk,
  own: CloseOnError,
): Promise<Uploads> {
  const { config } = foundation;
  const { resumable, staging } = config.server;
  const partialUploads = await PartialUploads.open({
    ...foundation,
    staging: staging.directory,
    settings: { ...resumable, ...quotasOf(config).partialUploads },
  });
  own(partialUploads);
  const maxUploadSize = (pipelineId: string): number | null =>
    configured.get().uploadPipelines.get(pipelineId)?.maxUploadSize ?? null;
  const content = await openContentStore({
    ...foundation,
    disk: stagingDisk.disk,
    staging: staging.directory,
    ...contentLimits(staging.keep, maxUploadSize),
  });
  return { stagingDisk, partialUploads, content: own(content) };
}

interface Background {
  /** null if this process does not publish. */
  tidying: Tidying | null;
  /** null if this process does not publish, or if metrics are disabled. */
  search: SuccessSearch | null;
  lag: Timer;
}

function startBackground(
  foundation: ProgramContext,
  { metrics, coordinator, workers }: { metrics: Metrics | null; coordinator: Coordinator; workers: boolean },
  own: CloseOnError,
): Background {
  const { pipelines } = foundation.config;
  const isSearched = metrics !== null && workers;
  return {
    tidying: workers ? own(startTidying({ ...foundation, threads: coordinator.threads, pipelines })) : null,
    search: isSearched ? own(findLastSuccesses(foundation, coordinator.queue, metrics.runs)) : null,
    lag: watchLoopLag({ ...foundation, record: (seconds) => metrics?.loopLag(seconds) }),
  };
}

function observe(metrics: Metrics, daemon: DaemonParts): void {
  const { foundation, configured, coordinator, server, streams, readiness, weather } = daemon;
  const { partialUploads, content } = daemon.uploads;
  const { queue, staging } = foundation.config.server;
  metrics.observe({
    queue: coordinator.queue,
    threads: () => coordinator.threads.stats(),
    driver: queue.driver,
    pipelines: () => configured.get().pipelineIds,
    connections: server.connections,
    streams: streams.stats,
    readiness,
    partialUploads: () => partialUploads.stats(),
    content: () => content.stats(),
    freeBytes: () => freeBytes(staging.directory),
    weather: weather?.health ?? null,
    undelivered: () => daemon.reporting.events.undelivered.counts(),
    notifiers: () => configured.get().notifierIds,
  });
  metrics.configRead({ succeeded: true, at: foundation.clock.now() });
}

function reloaderOf(daemon: DaemonParts, onReload: DaemonOptions['onReload']): Reloader {
  const { configured, scheduler, background, reporting } = daemon;
  return new Reloader({
    ...daemon,
    notifier: reporting.notifier,
    search: background.search,
    needs: 'api',
    onReload,
    prepare: (next) => {
      const access = resolveAccess(next);
      return () => {
        configured.replace(access);
        scheduler.update(next.config.pipelines);
        background.tidying?.update(next.config.pipelines);
      };
    },
  });
}

interface Shutdown {
  /** Aborted when the daemon stops accepting uploads. */
  draining: AbortController;
  /** Aborted when the daemon can no longer wait for uploads that are still being received. */
  uploads: AbortController;
}
