import { randomBytes } from 'node:crypto';
import type { Config, PipelineConfig } from '../../core/config/config.ts';
import { quotasOf } from './quotas.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import type { Coordinator } from '../../workers/coordinator.ts';
import type { OpenedDisk } from '../../workers/disk/open-disk.ts';
import type { ContentStore } from '../../workers/content/content-store.ts';
import { roomForUploads } from '../../workers/content/room-for-uploads.ts';
import { stageWithContent } from '../../workers/content/stage-with-content.ts';
import type { PartialUploads } from '../../workers/partial/partial-uploads.ts';
import { cancelled } from '../../workers/refusals.ts';
import type { Scheduler } from '../../workers/schedule/scheduler.ts';
import type { Current } from '../../core/lib/current.ts';
import type { ReloadReport } from '../../core/config/reload.ts';
import { resolveToken, resolveTokens, type KnownToken } from '../../api/http/auth.ts';
import { createBodyMemory } from '../../api/http/request/body-in-memory.ts';
import { createShares } from '../../api/http/request/shares.ts';
import type { Streams } from '../../api/live/streams.ts';
import type { ConsoleSettings } from '../../api/console/ports.ts';
import type { Readiness } from '../../api/health/readiness.ts';
import type { Metrics } from '../../api/metrics/metrics.ts';
import type { ApiAccess, ApiPorts } from '../../api/ports.ts';
import type { DaemonPorts } from './daemon-app.ts';
import { resolveAdminToken } from '../../api/http/admin-token.ts';
import { problemPage } from '../../api/pages/problem-page.ts';
import { siteOf } from '../../api/site-of.ts';
import { summariesOf } from '../../api/runs/pipelines-route.ts';
import { measuredStage } from '../../api/upload/measured-stage.ts';
import { requireStrongTokens } from '../../core/config/weak-tokens.ts';
import type { UploadPipeline } from '../../api/upload/ports.ts';
import type { Pulse } from '../../weather/api/open-weather.ts';
import type { WeatherService } from '../../weather/api/service.ts';
import type { Foundation, ProgramNotifier } from './bootstrap.ts';

/**
 * Who may call, and about which pipelines. Throws `secrets_invalid` if a token is missing, is too short or
 * unusable, or equals another.
 */
export function resolveAccess({ config, secrets }: Pick<Foundation, 'config' | 'secrets'>): ApiAccess {
  requireStrongTokens(config.uploadTokens, secrets);
  return {
    tokens: resolveTokens(config.uploadTokens, secrets),
    metricsToken: metricsToken(config, secrets),
    adminToken: resolveAdminToken(config, secrets),
    uploadPipelines: uploadPipelines(config),
    pipelineIds: new Set(config.pipelines.map(({ id }) => id)),
    sourcePipelines: sourcePipelines(config),
    pipelines: summariesOf(config),
    notifierIds: new Set(config.notifiers.map(({ id }) => id)),
  };
}

/** What the API is connected to. */
export interface ApiParts {
  configured: Current<ApiAccess>;
  tracer: Tracer;
  reload: () => Promise<ReloadReport>;
  metrics: Metrics | null;
  notifier: Pick<ProgramNotifier, 'notify' | 'undelivered' | 'redeliver'>;
  coordinator: Coordinator;
  partialUploads: PartialUploads;
  content: ContentStore;
  stagingDisk: OpenedDisk;
  scheduler: Pick<Scheduler, 'nextRun'>;
  weather: WeatherService | null;
  weatherPulse: Pulse | null;
  readiness: Readiness;
  sceneMaps: ApiPorts['sceneMaps'];
  endedSessions: ApiPorts['endedSessions'];
  /** Aborts when uploads that are still being received must end. */
  stopping: AbortSignal;
  /** Aborts when the daemon begins to stop. */
  draining: AbortSignal;
  streams: Streams;
}

/** The ports of the daemon's API. */
export function apiPorts(foundation: Foundation, parts: ApiParts): DaemonPorts {
  const { config, clock, log, logging } = foundation;
  const { configured, reload, metrics, notifier, coordinator, weather, weatherPulse, readiness } = parts;
  const { stopping, draining, streams } = parts;
  const { disk, requireAnswers } = parts.stagingDisk;
  const stage = stageWithContent(parts.content, { breathe: foundation.breathe, disk });
  const settings = consoleSettings(config, foundation.secrets);
  return {
    http: config.server.http,
    clock,
    log,
    logging,
    tracer: parts.tracer,
    configured,
    reload,
    notifier,
    nextRunOf: (pipelineId) => parts.scheduler.nextRun(pipelineId),
    queue: coordinator.queue,
    archives: createShares({ total: Infinity, perOwner: quotasOf(config).uploads }),
    onCancelled: ({ pipelineId, runId }) => {
      metrics?.runs.cancelled(pipelineId);
      notifier.notify(runFailure(pipelineId, runId, errorRecord(cancelled())));
    },
    queueDriver: config.server.queue.driver,
    staging: coordinator.staging,
    room: roomForUploads({
      directory: config.server.staging.directory,
      ...{ clock, content: parts.content, requireAnswers },
    }),
    partialUploads: parts.partialUploads,
    content: parts.content,
    stage: metrics === null ? stage : measuredStage(stage, metrics),
    plan: (job, signal) => coordinator.plan(job, signal),
    releases: (request, signal) => coordinator.releases(request, signal),
    look: (request, signal) => coordinator.look(request, signal),
    console: settings,
    metrics,
    weather,
    weatherPulse,
    readiness,
    stopping,
    sceneMaps: parts.sceneMaps,
    endedSessions: parts.endedSessions,
    bodyMemory: createBodyMemory(config.server.http.maxBodyMemory),
    streams,
    draining,
    problemPage: problemPage(siteOf({ http: config.server.http, console: settings })),
  };
}

/** Throws `secrets_invalid` if the session key is too short to be none that could be guessed. */
export function consoleSettings({ server }: Config, secrets: Secrets): ConsoleSettings | null {
  const { enabled, sessionMs, sessionKeyEnv } = server.console;
  if (!enabled) return null;
  if (sessionKeyEnv === null) return { sessionMs, sessionKey: randomBytes(32) };
  const sessionKey = secrets.require(sessionKeyEnv, 'server.console');
  if (sessionKey.length >= 32) return { sessionMs, sessionKey };
  throw new WaybillError('secrets_invalid', `the value of ${sessionKeyEnv} has fewer than 32 characters`, {
    hint: 'use a random one, for example the output of `openssl rand -hex 32`',
  });
}

/** The pipelines that take uploads, by id. */
export function uploadPipelines(config: Config): Map<string, UploadPipeline> {
  const pipelines = new Map<string, UploadPipeline>();
  for (const pipeline of config.pipelines) {
    const { id, source, sceneMaps, autoManifest, destinations } = pipeline;
    if (source.backend !== 'http_upload') continue;
    const { maxUploadSize, maxFiles } = source;
    const channels = channelsOf(pipeline);
    const limits = { maxUploadSize, maxFiles };
    pipelines.set(id, { id, ...limits, sceneMaps, autoManifest, channels, destinations });
  }
  return pipelines;
}

/** Those that have a source of their own, with their channels. */
function sourcePipelines(config: Config): Map<string, readonly string[]> {
  return new Map(
    config.pipelines
      .filter(({ source }) => source.backend !== 'http_upload')
      .map((pipeline) => [pipeline.id, channelsOf(pipeline)]),
  );
}

/** Of all its destinations, sorted. */
function channelsOf({ destinations }: PipelineConfig): string[] {
  const names = destinations.flatMap(({ releases }) => releases?.channels.map(({ name }) => name) ?? []);
  return [...new Set(names)].sort();
}

/** The token that `/metrics` requires, or null. Throws `secrets_invalid` if it is missing. */
export function metricsToken({ server }: Config, secrets: Secrets): KnownToken | null {
  const { enabled, tokenEnv } = server.metrics;
  if (!enabled || tokenEnv === null) return null;
  return resolveToken({ id: 'metrics', valueEnv: tokenEnv }, 'server.metrics', secrets);
}
