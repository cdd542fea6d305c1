import type { TrailSettings } from '../audit/trail-writer.ts';
import type { SceneMapRules } from '../bundle/validate-bundle.ts';
import type { LogSettings } from '../lib/log.ts';
import type { ResolvedBy } from '../lib/settings/setting.ts';
import type { Amount } from '../lib/settings/sizes-and-durations.ts';
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
 * The parsed configuration. All defaults are filled in, durations are in milliseconds, sizes are in bytes,
 * and paths are absolute. It always comes from a YAML file that matches `schema.ts`.
 */
export interface Config {
  /**
   * The absolute path of the configuration file. Relative paths in the file are relative to its directory.
   */
  file: string;
  secrets: ResolvedBy<typeof secrets>;
  /** Absolute paths whose owners and modes are not checked. */
  trustedDirectories: string[];
  uploadTokens: UploadTokenConfig[];
  trustedPublishers: PublisherConfig[];
  server: ServerConfig;
  log: LogSettings;
  audit: TrailSettings | null;
  tracing: ResolvedBy<typeof tracingSchema> | null;
  pipelines: PipelineConfig[];
  notifiers: NotifierConfig[];
  /** The weather databases. Only the first one is used. */
  databases: DatabaseConfig[];
  /**
   * The directory with templates; null for the built-in ones. A relative path refers to the working
   * directory of the command.
   */
  templates: { baseDir: string | null };
  weather: WeatherConfig;
}

export type UploadTokenConfig = Omit<ResolvedBy<typeof uploadToken>, 'expires'> & {
  /** The time when the token expires; null if it never does. */
  expiresAt: Date | null;
};

export type PublisherConfig = ResolvedBy<typeof trustedPublisher>;

export type LoginConfig = ResolvedBy<typeof loginSchema>;

export interface ServerConfig {
  http: { host: string; port: number } & Omit<ResolvedBy<typeof http>, 'listen'>;
  metrics: ResolvedBy<typeof metricsSchema>;
  console: ResolvedBy<typeof consoleSchema>;
  /**
   * How long to keep retrying a failed run, in milliseconds; 0 to not retry at all. A pipeline can set its
   * own value.
   */
  retryForMs: number;
  /** Limits on keeping the bundles of failed runs, so that the runs can be repeated. */
  rerun: { keepMs: number; maxBundles: number; maxBytes: number };
  /** Settings for resumable uploads. */
  resumable: Omit<ResolvedBy<typeof resumable>, 'maxBytes'> & { maxBytes: number };
  worker: ResolvedBy<typeof worker>;
  /** The variable that contains the admin token; null if there is none. */
  adminTokenEnv: string | null;
  /**
   * The variable that contains the keys for access tokens. The first one is used for signing. If this is
   * null, the process generates a key.
   */
  tokenKeysEnv: string | null;
  staging: {
    /**
     * A local directory for uploads while they arrive. Workers also extract uploads from other hosts here.
     */
    directory: string;
    /** In bullmq mode, the storage for bundles that will be published by another host. */
    shared: SourceLocation | null;
    /**
     * How much to keep of the files from each pipeline's uploads: their total size, and how long since they
     * were last used. If `maxBytes` is null, the limit depends on the largest bundle that the pipeline
     * accepts.
     */
    keep: { maxBytes: number | null; ageMs: number };
  };
  queue: { driver: 'memory' } | { driver: 'embedded'; directory: string } | BullmqConfig;
}

export interface BullmqConfig {
  driver: 'bullmq';
  redisUrlEnv: string;
  /** The Sentinels to ask for the primary; null if the URL points to the primary. */
  redisSentinels: { master: string; hosts: readonly { host: string; port: number }[] } | null;
  /** Whether the URL points to a node in a Redis Cluster. */
  redisCluster: boolean;
  /**
   * The variables that contain the keys for jobs. The first one is used for signing. Empty if jobs are not
   * signed.
   */
  signingKeyEnvs: readonly string[];
  prefix: string;
  workerTimeoutMs: number;
}

export interface PipelineConfig {
  id: string;
  source: SourceConfig;
  /**
   * Identifies the source in catalogs. This is the id in the configuration; if there is none, the location
   * or, for uploads, the pipeline.
   */
  sourceId: string;
  /** How to generate a manifest if the source has none; missing if it must have one. */
  autoManifest?: AutoManifestConfig;
  /** Directories outside of the source that links may point to; missing if links are not followed. */
  followLinks?: { linksTo: readonly string[] };
  destinations: DestinationConfig[];
  /**
   * How much of `queueSize` this pipeline's uploads may take up, counting those that are being received or
   * are waiting. null if there is no other limit than `queueSize`.
   */
  maxWaiting: Amount | null;
  /** How long to keep retrying a failed run, in milliseconds; null to use `server.retryForMs`. */
  retryForMs: number | null;
  /** How long one attempt of a run can take, in milliseconds. */
  runTimeoutMs: number;
  /** How long reading the source can take, in milliseconds. */
  discoveryTimeoutMs: number;
  /** Whether later runs may go ahead of one that is going to be retried (`pass`), or have to wait for it. */
  whileRetrying: 'pass' | 'wait';
  /** null if there are no scheduled runs. */
  schedule: ScheduleConfig | null;
  /** When set, changes in the source start a run. The source has to be local. */
  watch: { settleMs: number } | null;
  sceneMaps: SceneMapRules;
  /** null or missing if the signatures of bundles are not checked. */
  signatures?: SignaturePolicy | null;
}

/** Patterns in `.gitignore` syntax. */
export interface AutoManifestConfig {
  /** The files to include; empty to include all of them. */
  include: readonly string[];
  exclude: readonly string[];
  /** How to deal with symbolic links. */
  links: 'refuse' | 'follow' | 'skip';
}

export type SourceConfig = SourceLocation | UploadSourceConfig;

interface UploadSourceConfig {
  backend: 'http_upload';
  maxUploadSize: number;
  maxFiles: number;
}

export interface DestinationConfig {
  id: string;
  location: DestinationLocation;
  mapping: 'preserve_relative' | 'fixed';
  workflow: 'additive' | 'replacement';
  /** Whether to publish a bundle that is older than the one already published. */
  stale: 'publish' | 'refuse';
  /** Whether a run should do anything about published bundles that are gone from the source. */
  orphans: 'keep' | 'report' | 'remove';
  /** Ends with `/`; null if it is not set. */
  publicBaseUrl: string | null;
  cacheControl: string | null;
  outputs: GeneratedOutputs;
  /** Whether to publish a page and feeds of the latest bundles at the root. Always false for `fixed`. */
  rootIndex: boolean;
  /** null for the in-place layout. */
  releases: ReleasesConfig | null;
  prune: PrunePolicy;
  limits: {
    /** How many published outputs a single publication or prune may remove; null for no limit. */
    maxRemoved: Amount | null;
  };
  /** How many files to write at a time. */
  fileConcurrency: number;
  /** How fast to transfer files when publishing, in bytes per second; null for no limit. */
  maxRate: number | null;
}

/** How many releases to keep, and for how long after they were replaced. */
export interface ReleasesConfig {
  keep: number;
  lingerMs: number;
  /** Whether readers access the outputs through `current/`, which makes it part of the URLs. */
  currentInUrl: boolean;
  channels: readonly ChannelConfig[];
}

/** A pointer with a name, next to `current`. */
export interface ChannelConfig {
  name: string;
  /** How long to keep the channel after something was last published to it. */
  ttlMs: number;
  /** The public URL of the destination root for this channel. Ends with `/`. */
  publicBaseUrl?: string;
}

export interface GeneratedOutputs {
  checksums: boolean;
  archive: boolean;
  /** With `auto`, it is only generated if the bundle has no file with that name. */
  index: boolean | 'auto';
  sceneMapPage: boolean;
  /** The key to sign outputs with; null or missing if they are not signed. */
  signature?: { keyEnv: string } | null;
}

export interface PrunePolicy {
  enabled: boolean;
  keepLatest: number | null;
  olderThanMs: number | null;
}
