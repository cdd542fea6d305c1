import type { TrailSettings } from '../audit/trail-writer.ts';
import type { SceneMapRules } from '../bundle/validate-bundle.ts';
import type { LogSettings } from '../lib/log.ts';
import type { ResolvedBy } from '../lib/settings/setting.ts';
import type { Amount } from '../lib/settings/units.ts';
import type { NotifierConfig } from '../notify/sink-kinds.ts';
import type { SignaturePolicy } from '../signing/trusted-keys.ts';
import type { DestinationLocation, SourceLocation } from '../storage/backends.ts';
import type { loginSchema } from './schema/console-login.ts';
import type { trustedPublisher } from './schema/publishers.ts';
import type { secrets, tracingSchema, uploadToken } from './schema/schema.ts';
import type { consoleSchema, http, metricsSchema, resumable, worker } from './schema/server.ts';
import type { ScheduleConfig } from './timetable.ts';
import type { DatabaseConfig } from './weather/databases.ts';
import type { WeatherConfig } from './weather/settings.ts';

/**
 * The parsed configuration: defaults are filled in, units are converted (to milliseconds and bytes), and
 * paths are absolute. These values are only created from YAML, according to `schema.ts`.
 */
export interface Config {
  /** The absolute path of the configuration file. Relative paths were resolved against its directory. */
  file: string;
  secrets: ResolvedBy<typeof secrets>;
  /** Absolute paths. Their owners and modes are not checked. */
  trustedDirectories: string[];
  uploadTokens: UploadTokenConfig[];
  trustedPublishers: PublisherConfig[];
  server: ServerConfig;
  log: LogSettings;
  /** null disables the audit trail. */
  audit: TrailSettings | null;
  /** null disables tracing. */
  tracing: ResolvedBy<typeof tracingSchema> | null;
  pipelines: PipelineConfig[];
  notifiers: NotifierConfig[];
  /** The weather databases. Only the first one is read. */
  databases: DatabaseConfig[];
  /**
   * If null, the bundled templates are used. The path is not resolved: if relative, it is relative to the
   * command's working directory.
   */
  templates: { baseDir: string | null };
  weather: WeatherConfig;
}

export type UploadTokenConfig = Omit<ResolvedBy<typeof uploadToken>, 'expires'> & {
  /** null if the token never expires. */
  expiresAt: Date | null;
};

export type PublisherConfig = ResolvedBy<typeof trustedPublisher>;

export type LoginConfig = ResolvedBy<typeof loginSchema>;

export interface ServerConfig {
  http: { host: string; port: number } & Omit<ResolvedBy<typeof http>, 'listen'>;
  metrics: ResolvedBy<typeof metricsSchema>;
  console: ResolvedBy<typeof consoleSchema>;
  /** How long a failed run is retried, in milliseconds; 0 disables retries. A pipeline may override it. */
  retryForMs: number;
  /** How long the bundles of failed runs stay staged, so that the runs can be repeated. */
  rerun: { keepMs: number; maxBundles: number; maxBytes: number };
  /** Settings for resumable uploads. */
  resumable: Omit<ResolvedBy<typeof resumable>, 'maxBytes'> & { maxBytes: number };
  worker: ResolvedBy<typeof worker>;
  /** The variable with the admin token; null if there is none. */
  adminTokenEnv: string | null;
  /**
   * The variable with the keys for access tokens. The first key signs. If null, the process generates a key.
   */
  tokenKeysEnv: string | null;
  staging: {
    /** A local directory for receiving uploads. Workers also extract uploads from other hosts there. */
    directory: string;
    /** In bullmq mode, the storage for bundles that are waiting for another host. */
    shared: SourceLocation | null;
    /**
     * Limits on the files kept from each pipeline's uploads: their total size and the time since their last
     * use. If `maxBytes` is null, it is derived from the pipeline's maximum bundle size.
     */
    keep: { maxBytes: number | null; ageMs: number };
  };
  queue: { driver: 'memory' } | { driver: 'embedded'; directory: string } | BullmqConfig;
}

export interface BullmqConfig {
  driver: 'bullmq';
  /** The variable with the Redis URL. */
  redisUrlEnv: string;
  /** The Sentinels that determine the primary; null if the URL does. */
  redisSentinels: { master: string; hosts: readonly { host: string; port: number }[] } | null;
  /** Whether the URL names a node of a Redis Cluster. */
  redisCluster: boolean;
  /** The variables with the keys for jobs. The first key signs. Empty if jobs are not signed. */
  signingKeyEnvs: readonly string[];
  prefix: string;
  workerTimeoutMs: number;
}

export interface PipelineConfig {
  id: string;
  source: SourceConfig;
  /**
   * Identifies the source in catalogs: the configured id, or else its location, or the pipeline for uploads.
   */
  sourceId: string;
  /** How to generate a manifest for a source without one; absent if the source must have a manifest. */
  autoManifest?: AutoManifestConfig;
  /** The directories outside the source that links may point to; absent if links are not followed. */
  followLinks?: { linksTo: readonly string[] };
  destinations: DestinationConfig[];
  /**
   * The maximum share of `queueSize` for this pipeline's uploads that are being received or waiting. If null,
   * only `queueSize` applies.
   */
  maxWaiting: Amount | null;
  /** How long a failed run is retried, in milliseconds. If null, `server.retryForMs` applies. */
  retryForMs: number | null;
  /** The maximum duration of one attempt of a run, in milliseconds. */
  runTimeoutMs: number;
  /** The maximum time for reading the source, in milliseconds. */
  discoveryTimeoutMs: number;
  /** Whether later runs overtake a run that is waiting to be retried, or wait behind it. */
  whileRetrying: 'pass' | 'wait';
  /** null disables scheduled runs. */
  schedule: ScheduleConfig | null;
  /** If null, changes in the source do not start runs. Otherwise, the source must be local. */
  watch: { settleMs: number } | null;
  sceneMaps: SceneMapRules;
  /** If null or absent, bundle signatures are not checked. */
  signatures?: SignaturePolicy | null;
}

/** Patterns in the syntax of `.gitignore`. */
export interface AutoManifestConfig {
  /** Patterns for the files to include. If empty, all files are included. */
  include: readonly string[];
  exclude: readonly string[];
  /** How to handle symbolic links. */
  links: 'refuse' | 'follow' | 'skip';
}

export type SourceConfig = SourceLocation | UploadSourceConfig;

export interface UploadSourceConfig {
  backend: 'http_upload';
  maxUploadSize: number;
  maxFiles: number;
}

export interface DestinationConfig {
  id: string;
  location: DestinationLocation;
  mapping: 'preserve_relative' | 'fixed';
  workflow: 'additive' | 'replacement';
  /** How to handle a bundle that is older than the published one. */
  stale: 'publish' | 'refuse';
  /** How a run handles published bundles that no longer exist in the source. */
  orphans: 'keep' | 'report' | 'remove';
  /** Ends with `/`; null if not configured. */
  publicBaseUrl: string | null;
  cacheControl: string | null;
  outputs: GeneratedOutputs;
  /** Whether to publish a page and feeds of the newest bundles at the root. Always false for `fixed`. */
  rootIndex: boolean;
  /** null for the in-place layout. */
  releases: ReleasesConfig | null;
  prune: PrunePolicy;
  limits: {
    /** The number of published outputs that one publication or prune may remove; null for no limit. */
    maxRemoved: Amount | null;
  };
  /** The maximum number of files written concurrently. */
  fileConcurrency: number;
  /** The maximum transfer rate for published files, in bytes per second; null for no limit. */
  maxRate: number | null;
}

/** How many releases are kept, and how long a replaced release stays. */
export interface ReleasesConfig {
  keep: number;
  lingerMs: number;
  /** Whether readers access the outputs below `current/`, which is then part of URLs. */
  currentInUrl: boolean;
  channels: readonly ChannelConfig[];
}

/** A named pointer in addition to `current`. */
export interface ChannelConfig {
  name: string;
  /** How long the channel stays after the last publication to it. */
  ttlMs: number;
  /** The public URL of the destination root for this channel. Ends with `/`. */
  publicBaseUrl?: string;
}

/** A destination's generated outputs. */
export interface GeneratedOutputs {
  checksums: boolean;
  archive: boolean;
  /** With `auto`, it is generated only if the bundle has no file with that name. */
  index: boolean | 'auto';
  sceneMapPage: boolean;
  /** The key that signs the outputs. If null or absent, they are not signed. */
  signature?: { keyEnv: string } | null;
}

export interface PrunePolicy {
  enabled: boolean;
  keepLatest: number | null;
  olderThanMs: number | null;
}
