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
 * The configuration after parsing: every default filled in, every unit converted (milliseconds, bytes),
 * every path absolute. Only `schema.ts` makes these values, from YAML.
 */
export interface Config {
  /** Absolute path of the file it was read from; relative paths in it were resolved against its directory. */
  file: string;
  secrets: ResolvedBy<typeof secrets>;
  /** Absolute; their owners and modes are not checked. */
  trustedDirectories: string[];
  uploadTokens: UploadTokenConfig[];
  trustedPublishers: PublisherConfig[];
  server: ServerConfig;
  log: LogSettings;
  /** null: no audit trail. */
  audit: TrailSettings | null;
  /** null: no tracing. */
  tracing: ResolvedBy<typeof tracingSchema> | null;
  pipelines: PipelineConfig[];
  notifiers: NotifierConfig[];
  /** Weather databases; the first is the one that is read. */
  databases: DatabaseConfig[];
  /**
   * null: the templates of the package. Not resolved: a relative path is relative to the working directory
   * of the command.
   */
  templates: { baseDir: string | null };
  weather: WeatherConfig;
}

export type UploadTokenConfig = Omit<ResolvedBy<typeof uploadToken>, 'expires'> & {
  /** null: the token never expires. */
  expiresAt: Date | null;
};

export type PublisherConfig = ResolvedBy<typeof trustedPublisher>;

export type LoginConfig = ResolvedBy<typeof loginSchema>;

export interface ServerConfig {
  http: { host: string; port: number } & Omit<ResolvedBy<typeof http>, 'listen'>;
  metrics: ResolvedBy<typeof metricsSchema>;
  console: ResolvedBy<typeof consoleSchema>;
  /** How long a failed run is retried, in milliseconds; 0 for no retry. A pipeline may override it. */
  retryForMs: number;
  /** How long bundles of failed runs stay staged, so that the runs can be repeated. */
  rerun: { keepMs: number; maxBundles: number; maxBytes: number };
  /** Partial uploads. */
  resumable: Omit<ResolvedBy<typeof resumable>, 'maxBytes'> & { maxBytes: number };
  worker: ResolvedBy<typeof worker>;
  /** Variable that holds the admin token; null if there is none. */
  adminTokenEnv: string | null;
  /** Variable that holds the keys of access tokens, the first one signs; null: the process makes a key. */
  tokenKeysEnv: string | null;
  staging: {
    /**
     * A directory of this machine for receiving uploads. Workers also extract uploads of other hosts there.
     */
    directory: string;
    /** In bullmq mode, the storage for bundles that wait for another host. */
    shared: SourceLocation | null;
    /**
     * Limits for the kept files of each pipeline's uploads: their size, and the time since their last use.
     * maxBytes null: derived from the pipeline's largest allowed bundle.
     */
    keep: { maxBytes: number | null; ageMs: number };
  };
  queue: { driver: 'memory' } | { driver: 'embedded'; directory: string } | BullmqConfig;
}

export interface BullmqConfig {
  driver: 'bullmq';
  /** The variable with the URL of Redis. */
  redisUrlEnv: string;
  /** The Sentinels that name the primary; null: the URL does. */
  redisSentinels: { master: string; hosts: readonly { host: string; port: number }[] } | null;
  /** Whether the URL names a node of a Redis Cluster. */
  redisCluster: boolean;
  /** Variables of the keys for jobs; the first one signs. Empty if jobs are not signed. */
  signingKeyEnvs: readonly string[];
  prefix: string;
  workerTimeoutMs: number;
}

export interface PipelineConfig {
  id: string;
  source: SourceConfig;
  /** Identifies the source in catalogs: as configured, else its place, or the pipeline for uploads. */
  sourceId: string;
  /** How to make a manifest for a source without one; absent if the source must have a manifest. */
  autoManifest?: AutoManifestConfig;
  /** The directories outside of the source that links may lead to; absent if links are not followed. */
  followLinks?: { linksTo: readonly string[] };
  destinations: DestinationConfig[];
  /**
   * Maximum share of `queueSize` for uploads of this pipeline that are being received or waiting; null: all
   * of it.
   */
  maxWaiting: Amount | null;
  /** How long a failed run of it is tried again, in milliseconds; null: `server.retryForMs`. */
  retryForMs: number | null;
  /** Longest time of one try of a run, in milliseconds. */
  runTimeoutMs: number;
  /** Longest time that reading the source may take, in milliseconds. */
  discoveryTimeoutMs: number;
  /** Whether later runs pass a run that waits for its next try, or wait behind it. */
  whileRetrying: 'pass' | 'wait';
  /** null: no scheduled runs. */
  schedule: ScheduleConfig | null;
  /** null: changes of the source start no run. Otherwise the source is local. */
  watch: { settleMs: number } | null;
  sceneMaps: SceneMapRules;
  /** null or absent: signatures of bundles are not looked at. */
  signatures?: SignaturePolicy | null;
}

/** Patterns in the syntax of `.gitignore`. */
export interface AutoManifestConfig {
  /** Patterns of the files to include; empty: all files. */
  include: readonly string[];
  exclude: readonly string[];
  /** How symbolic links are treated. */
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
  /** How a bundle that is older than the published one is treated. */
  stale: 'publish' | 'refuse';
  /** How a run treats earlier outputs whose bundles the source no longer holds. */
  orphans: 'keep' | 'report' | 'remove';
  /** Ends with `/`; null if not configured. */
  publicBaseUrl: string | null;
  cacheControl: string | null;
  outputs: GeneratedOutputs;
  /** Whether the root gets a page and feeds of the newest bundles; never with `fixed`. */
  rootIndex: boolean;
  /** null: published in place. */
  releases: ReleasesConfig | null;
  prune: PrunePolicy;
  limits: {
    /** How many published outputs one publication or prune may remove; null: any number. */
    maxRemoved: Amount | null;
  };
  /** Maximum number of files written concurrently. */
  fileConcurrency: number;
  /** Maximum rate of the bytes of published files, in bytes per second; null: no limit. */
  maxRate: number | null;
}

/** How many releases are kept, and for how long a replaced one stays. */
export interface ReleasesConfig {
  keep: number;
  lingerMs: number;
  /** Whether readers find the outputs below `current/`, as URLs then say. */
  currentInUrl: boolean;
  channels: readonly ChannelConfig[];
}

/** A pointer in addition to `current`. */
export interface ChannelConfig {
  name: string;
  /** How long it stays after something was published to it. */
  ttlMs: number;
  /** Public URL of the destination root for this channel; ends with `/`. */
  publicBaseUrl?: string;
}

/** The generated outputs of a destination. */
export interface GeneratedOutputs {
  checksums: boolean;
  archive: boolean;
  /** `auto`: only if the bundle has no file of that name. */
  index: boolean | 'auto';
  sceneMapPage: boolean;
  /** The key that signs the outputs; null or absent: they are not signed. */
  signature?: { keyEnv: string } | null;
}

export interface PrunePolicy {
  enabled: boolean;
  keepLatest: number | null;
  olderThanMs: number | null;
}
