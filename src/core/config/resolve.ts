import { dirname } from 'node:path';
import type { TrailSettings } from '../audit/trail-writer.ts';
import { dateOf } from '../lib/instant.ts';
import {
  accepted,
  parseListen,
  type PathBase,
  resolveDuration,
  resolvePath,
  resolveSize,
} from '../lib/settings/parse-values.ts';
import { resolved } from '../lib/settings/resolved.ts';
import type { AcceptedBy, ResolvedBy } from '../lib/settings/setting.ts';
import { notifier } from '../notify/sink-kinds.ts';
import { backendOf, describeLocation } from '../storage/backends.ts';
import type {
  BullmqConfig,
  Config,
  DestinationConfig,
  PipelineConfig,
  ReleasesConfig,
  ServerConfig,
  SourceConfig,
} from './config.ts';
import type { auditSchema } from './schema/audit.ts';
import {
  type DestinationDocument,
  destinationSettings,
  initialReleases,
  releasesSettings,
  type SourceDocument,
} from './schema/locations.ts';
import { trustedPublisher } from './schema/publishers.ts';
import {
  type ConfigDocument,
  type PipelineDocument,
  pipelineMap,
  secrets,
  tracingSchema,
  uploadToken,
} from './schema/schema.ts';
import {
  consoleSchema,
  http as httpSchema,
  metricsSchema,
  resumable as resumableSchema,
  worker as workerSchema,
} from './schema/server.ts';
import { resolveStaging, stagingDirectory, type StagingDocument } from './schema/staging.ts';
import { databases } from './weather/databases.ts';
import { weather } from './weather/settings.ts';

/**
 * Turns a document that the schema accepted into a configuration. Units are converted, paths become absolute,
 * and names are the ones used in the code.
 */
export function resolveConfig(document: ConfigDocument, place: { file: string; home: string }): Config {
  const base: PathBase = { directory: dirname(place.file), home: place.home };
  return {
    file: place.file,
    secrets: resolved(secrets, document.secrets, base),
    trustedDirectories: document.trusted_directories.map((trusted) => resolvePath(trusted, base)),
    uploadTokens: document.upload_tokens.map((token) => {
      const { expires, ...plain } = resolved(uploadToken, token, base);
      return { ...plain, expiresAt: expires === null ? null : dateOf(expires) };
    }),
    trustedPublishers: document.trusted_publishers.map((one) => resolved(trustedPublisher, one, base)),
    server: resolveServer(document.server, base),
    log: document.log,
    audit: document.audit === undefined ? null : resolveAudit(document.audit, base),
    tracing: document.tracing === undefined ? null : resolved(tracingSchema, document.tracing, base),
    pipelines: document.pipelines.map((pipeline) => resolvePipeline(pipeline, document.server, base)),
    notifiers: document.notifiers.map((one) => resolved(notifier, one, base)),
    databases: resolved(databases, document.databases, base),
    templates: { baseDir: document.templates.base_dir ?? null },
    weather: resolved(weather, document.weather, base),
  };
}

function resolveAudit(
  { max_size, max_age, on_full, directory }: AcceptedBy<typeof auditSchema>,
  base: PathBase,
): TrailSettings {
  return {
    directory: resolvePath(directory, base),
    maxBytes: resolveSize(max_size),
    maxAgeMs: resolveDuration(max_age),
    onFull: on_full,
  };
}

function resolveServer(server: ConfigDocument['server'], base: PathBase): ServerConfig {
  const { rerun, staging, queue, admin_token_env, token_keys_env } = server;
  const { listen, ...http } = resolved(httpSchema, server.http, base);
  const { maxBytes, ...resumable } = resolved(resumableSchema, server.resumable, base);
  return {
    http: { ...listen, ...http },
    metrics: resolved(metricsSchema, server.metrics, base),
    console: resolved(consoleSchema, server.console, base),
    retryForMs: resolveDuration(server.retry_for),
    rerun: {
      // The records of runs, and the bundles with them, are never kept any longer than this. The number of
      // bytes is more than fits on any disk.
      keepMs: resolveDuration(rerun.keep_for ?? '366d'),
      maxBundles: rerun.max_bundles ?? Number.MAX_SAFE_INTEGER,
      maxBytes: rerun.max_bytes === undefined ? Number.MAX_SAFE_INTEGER : resolveSize(rerun.max_bytes),
    },
    resumable: { ...resumable, maxBytes: maxBytes ?? Number.MAX_SAFE_INTEGER },
    worker: resolved(workerSchema, server.worker, base),
    adminTokenEnv: admin_token_env ?? null,
    tokenKeysEnv: token_keys_env ?? null,
    ...resolveQueue(queue, staging, base),
  };
}

/**
 * Resolves the settings for the queue and staging. If there is just one process, it stages in the directory
 * from the configuration. In bullmq mode, staging is shared, and each machine also has a scratch directory of
 * its own.
 */
function resolveQueue(
  queue: ConfigDocument['server']['queue'],
  document: StagingDocument,
  base: PathBase,
): Pick<ServerConfig, 'staging' | 'queue'> {
  const location = resolveStaging(document, base);
  const { size, age } = document.keep;
  const keep = {
    maxBytes: size === undefined ? null : resolveSize(size),
    ageMs: resolveDuration(age),
  };
  if (queue.driver === 'bullmq')
    return {
      staging: { directory: resolvePath(queue.scratch_directory, base), shared: location, keep },
      queue: {
        driver: 'bullmq',
        redisUrlEnv: queue.redis_url_env,
        redisSentinels: resolveSentinels(queue.redis_sentinels),
        redisCluster: queue.redis_cluster,
        signingKeyEnvs: queue.signing_key_envs ?? [],
        prefix: queue.prefix,
        workerTimeoutMs: resolveDuration(queue.worker_timeout),
      },
    };
  const staging = { directory: stagingDirectory(location), shared: null, keep };
  if (queue.driver === 'memory') return { staging, queue: { driver: 'memory' } };
  return { staging, queue: { driver: 'embedded', directory: resolvePath(queue.directory, base) } };
}

function resolveSentinels(
  sentinels: { master: string; hosts: readonly string[] } | undefined,
): BullmqConfig['redisSentinels'] {
  if (sentinels === undefined) return null;
  return { ...sentinels, hosts: sentinels.hosts.map((host) => accepted(parseListen(host))) };
}

function resolvePipeline(
  pipeline: PipelineDocument,
  server: ConfigDocument['server'],
  base: PathBase,
): PipelineConfig {
  const source = resolveSource(pipeline.source, base);
  const {
    runTimeoutMs,
    discoveryTimeoutMs,
    schedule,
    timezone,
    catchUp,
    jitterMs,
    watch,
    settleMs,
    ...plain
  } = resolved(pipelineMap, pipeline, base);
  return {
    ...plain,
    id: pipeline.id,
    source,
    sourceId: identityOf(pipeline, source),
    ...resolveAutoManifest(pipeline.source),
    ...resolveLinks(pipeline.source, base),
    destinations: pipeline.destinations.map((destination) =>
      resolveDestination(destination, pipeline.source, base),
    ),
    runTimeoutMs: runTimeoutMs ?? resolveDuration(server.run_timeout),
    discoveryTimeoutMs: discoveryTimeoutMs ?? resolveDuration(server.discovery_timeout),
    schedule: schedule === null ? null : { cron: schedule, timezone, catchUp, jitterMs },
    watch: watch ? { settleMs } : null,
  };
}

/**
 * Returns the source's identity. It should not change, because if it does, every record in the catalog is
 * rewritten.
 */
function identityOf({ id, source }: PipelineDocument, resolved: SourceConfig): string {
  if (resolved.backend === 'http_upload') return id;
  return ('id' in source ? source.id : undefined) ?? describeLocation(resolved);
}

function resolveAutoManifest(source: SourceDocument): Pick<PipelineConfig, 'autoManifest'> {
  if (source.manifest === 'required') return {};
  const { include, exclude } = source;
  // If there is a link in an archive, it is refused before this matters.
  const links = 'links' in source ? source.links : 'refuse';
  return { autoManifest: { include, exclude, links } };
}

function resolveLinks(source: SourceDocument, base: PathBase): Pick<PipelineConfig, 'followLinks'> {
  if (!('links' in source) || source.links !== 'follow') return {};
  return { followLinks: { linksTo: (source.links_to ?? []).map((each) => resolvePath(each, base)) } };
}

export function resolveSource(source: SourceDocument, base: PathBase): SourceConfig {
  if (source.backend !== 'http_upload') return backendOf(source).resolve(source, base);
  return {
    backend: 'http_upload',
    maxUploadSize: resolveSize(source.max_upload_size),
    maxFiles: source.max_files,
  };
}

function resolveDestination(
  destination: DestinationDocument,
  source: SourceDocument,
  base: PathBase,
): DestinationConfig {
  const backend = backendOf(destination);
  const { stale, layout, releases, outputs, retention, fileConcurrency, ...plain } = resolved(
    destinationSettings,
    destination,
    base,
  );
  const { rootIndex, ...generated } = outputs;
  return {
    ...plain,
    id: destination.id,
    location: backend.resolveDestination(destination, base),
    stale: stale ?? defaultStale(destination, source),
    outputs: generated,
    rootIndex,
    releases:
      layout === 'in_place'
        ? null
        : withChannels(releases ?? resolved(releasesSettings, initialReleases, base)),
    prune: retention.prune,
    fileConcurrency: fileConcurrency ?? backend.fileConcurrency.files,
  };
}

function withChannels({ channels, ...releases }: ResolvedBy<typeof releasesSettings>): ReleasesConfig {
  return {
    ...releases,
    channels: Object.entries(channels).map(([name, { ttlMs, publicBaseUrl }]) =>
      publicBaseUrl === null ? { name, ttlMs } : { name, ttlMs, publicBaseUrl },
    ),
  };
}

/**
 * Returns the default for `stale`. Uploads can arrive in any order, and if only the newest bundle is kept at
 * a fixed path, an older one is probably a late retry. With any other source, each run publishes the newest
 * bundle there is. If that bundle has no manifest, it is as old as its newest file, and becomes older when
 * that file is deleted.
 */
function defaultStale(
  { mapping }: DestinationDocument,
  { backend, manifest }: SourceDocument,
): DestinationConfig['stale'] {
  return mapping === 'fixed' && backend === 'http_upload' && manifest === 'required' ? 'refuse' : 'publish';
}
