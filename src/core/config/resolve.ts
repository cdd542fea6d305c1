import { dirname } from 'node:path';
import type {
  Config,
  DestinationConfig,
  DestinationLocation,
  LocalLocation,
  NotifierConfig,
  PipelineConfig,
  S3Location,
  ServerConfig,
  SftpLocation,
  SourceConfig,
} from './config.ts';
import type {
  ConfigDocument,
  DestinationDocument,
  DestinationLocationDocument,
  LocalDocument,
  NotifierDocument,
  PipelineDocument,
  S3Document,
  SftpDocument,
  SourceDocument,
  StagingDocument,
} from './document.ts';
import { resolveDatabase } from './resolve-weather.ts';
import { parseDuration, parseSize } from '../settings/units.ts';
import {
  parseBasePath,
  parseBaseUrl,
  parseEndpoint,
  parseListen,
  parsePrefix,
  parseWebhookUrl,
  resolvePath,
  type PathBase,
  type Verdict,
} from '../settings/values.ts';

/**
 * Turns a document that the schema accepted into the configuration: units converted, paths absolute, names of
 * the code. Pure.
 */
export function resolveConfig(document: ConfigDocument, place: { file: string; home: string }): Config {
  const base: PathBase = { directory: dirname(place.file), home: place.home };
  const { directory } = document.secrets;
  return {
    file: place.file,
    secrets: { directory: directory === undefined ? null : resolvePath(directory, base) },
    uploadTokens: document.upload_tokens.map(({ id, value_env, pipelines }) => ({
      id,
      valueEnv: value_env,
      pipelines,
    })),
    server: resolveServer(document.server, base),
    pipelines: document.pipelines.map((pipeline) => resolvePipeline(pipeline, base)),
    notifiers: document.notifiers.map((notifier) => resolveNotifier(notifier, base)),
    databases: document.databases.map((database) => resolveDatabase(database, base)),
    templates: { baseDir: document.templates.base_dir },
    weather: { cacheMs: milliseconds(document.weather.cache) },
  };
}

function resolveServer(
  { http, metrics, staging, queue, admin_token_env }: ConfigDocument['server'],
  base: PathBase,
): ServerConfig {
  return {
    http: {
      ...accepted(parseListen(http.listen)),
      basePath: accepted(parseBasePath(http.base_path)),
      trustedProxies: http.trusted_proxies,
      retentionMs: milliseconds(http.retention),
      queueSize: http.queue_size,
      maxConcurrency: http.max_concurrency,
      uploadTimeoutMs: milliseconds(http.upload_timeout),
      idleTimeoutMs: milliseconds(http.idle_timeout),
      shutdownTimeoutMs: milliseconds(http.shutdown_timeout),
      protectRuns: http.protect_runs,
    },
    metrics: { enabled: metrics.enabled, tokenEnv: metrics.token_env ?? null },
    adminTokenEnv: admin_token_env ?? null,
    ...resolveQueue(queue, resolveStaging(staging, base), base),
  };
}

function resolveStaging(staging: StagingDocument, base: PathBase): LocalLocation | SftpLocation | S3Location {
  switch (staging.backend) {
    case 'local':
      return { backend: 'local', path: resolvePath(staging.directory, base) };
    case 'sftp':
      return resolveSftp(staging, base);
    case 's3':
      return resolveS3(staging);
  }
}

/**
 * In memory staging is the directory that was named; in bullmq mode it is shared, and each machine has a
 * scratch directory of its own.
 */
function resolveQueue(
  queue: ConfigDocument['server']['queue'],
  location: LocalLocation | SftpLocation | S3Location,
  base: PathBase,
): Pick<ServerConfig, 'staging' | 'queue'> {
  if (queue.driver === 'bullmq')
    return {
      staging: { directory: resolvePath(queue.scratch_directory, base), shared: location },
      queue: {
        driver: 'bullmq',
        redisUrlEnv: queue.redis_url_env,
        prefix: queue.prefix,
        workerTimeoutMs: milliseconds(queue.worker_timeout),
      },
    };
  // `relations.ts` has refused any other.
  const directory = location.backend === 'local' ? location.path : '';
  return { staging: { directory, shared: null }, queue: { driver: 'memory' } };
}

function resolvePipeline(pipeline: PipelineDocument, base: PathBase): PipelineConfig {
  return {
    id: pipeline.id,
    source: resolveSource(pipeline.source, base),
    destinations: pipeline.destinations.map((destination) => resolveDestination(destination, base)),
    sceneMaps: { contentRules: pipeline.scene_maps.content_rules },
  };
}

export function resolveSource(source: SourceDocument, base: PathBase): SourceConfig {
  switch (source.backend) {
    case 'local':
      return resolveLocal(source, base);
    case 'sftp':
      return resolveSftp(source, base);
    case 's3':
      return resolveS3(source);
    case 'http_upload':
      return {
        backend: 'http_upload',
        maxUploadSize: accepted(known(parseSize(source.max_upload_size))),
        maxFiles: source.max_files,
      };
  }
}

export function resolveDestination(destination: DestinationDocument, base: PathBase): DestinationConfig {
  const { outputs } = destination;
  const { prune } = destination.retention;
  return {
    id: destination.id,
    location: resolveDestinationLocation(destination, base),
    mapping: destination.mapping,
    workflow: destination.workflow,
    publicBaseUrl:
      destination.public_base_url === undefined ? null : accepted(parseBaseUrl(destination.public_base_url)),
    cacheControl: destination.cache_control ?? null,
    outputs: {
      checksums: outputs.checksums,
      archive: outputs.archive,
      index: outputs.index,
      sceneMapPage: outputs.scene_map_page,
    },
    prune: {
      enabled: prune.enabled,
      keepLatest: prune.keep_latest ?? null,
      olderThanMs: prune.older_than === undefined ? null : milliseconds(prune.older_than),
    },
    fileConcurrency: destination.file_concurrency ?? (destination.backend === 's3' ? 32 : 8),
  };
}

function resolveDestinationLocation(
  location: DestinationLocationDocument,
  base: PathBase,
): DestinationLocation {
  switch (location.backend) {
    case 'local':
      return resolveLocal(location, base);
    case 'sftp':
      return resolveSftp(location, base);
    case 's3':
      return { ...resolveS3(location), allowBucketRoot: location.allow_bucket_root };
  }
}

function resolveLocal({ path }: LocalDocument, base: PathBase): LocalLocation {
  return { backend: 'local', path: resolvePath(path, base) };
}

function resolveSftp(location: SftpDocument, base: PathBase): SftpLocation {
  const optionalPath = (path: string | undefined): string | null =>
    path === undefined ? null : resolvePath(path, base);
  return {
    backend: 'sftp',
    host: location.host,
    port: location.port,
    user: location.user,
    path: location.path,
    sshKeyFile: optionalPath(location.ssh_key_file),
    sshKeyPassphraseEnv: location.ssh_key_passphrase_env ?? null,
    sshAgentSocket: optionalPath(location.ssh_agent_socket),
    hostKeyPolicy: location.host_key_policy,
    knownHostsFile: resolvePath(location.known_hosts_file, base),
    maxRequests: location.max_requests,
  };
}

function resolveS3(location: S3Document): S3Location {
  const { access_key_id_env: accessKeyIdEnv, secret_access_key_env: secretAccessKeyEnv } = location;
  return {
    backend: 's3',
    bucket: location.bucket,
    prefix: accepted(parsePrefix(location.prefix)),
    endpoint: location.endpoint === undefined ? null : accepted(parseEndpoint(location.endpoint)),
    region: location.region ?? null,
    pathStyle: location.path_style ?? location.endpoint !== undefined,
    credentials:
      accessKeyIdEnv === undefined || secretAccessKeyEnv === undefined
        ? null
        : { accessKeyIdEnv, secretAccessKeyEnv },
  };
}

function resolveNotifier(notifier: NotifierDocument, base: PathBase): NotifierConfig {
  const { id, events, pipelines = null } = notifier;
  const common = { id, events, pipelines };
  switch (notifier.kind) {
    case 'log':
      return { ...common, kind: 'log' };
    case 'file':
      return { ...common, kind: 'file', path: resolvePath(notifier.path, base) };
    case 'webhook':
      return {
        ...common,
        kind: 'webhook',
        url: accepted(parseWebhookUrl(notifier.url)),
        secretEnv: notifier.secret_env,
        timeoutMs: milliseconds(notifier.timeout),
        allowAddresses: notifier.allow_addresses,
      };
    case 'redis':
      return {
        ...common,
        kind: 'redis',
        redisUrlEnv: notifier.redis_url_env,
        channel: notifier.channel,
        timeoutMs: milliseconds(notifier.timeout),
      };
  }
}

function milliseconds(text: string): number {
  return accepted(known(parseDuration(text)));
}

function known(value: number | undefined): Verdict<number> {
  return value === undefined ? { ok: false, reason: 'is not in its unit' } : { ok: true, value };
}

/** The schema asked the same parsers, so a refusal here is a defect and not a user's mistake. */
function accepted<T>(verdict: Verdict<T>): T {
  if (!verdict.ok) throw new Error(`the schema accepted a value that ${verdict.reason}`);
  return verdict.value;
}
