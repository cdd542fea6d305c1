import type { LogSettings } from '../lib/log.ts';
import type { Scope } from './schema/schema.ts';
import type { DatabaseDocument } from './weather/databases.ts';
import type { WeatherDocument } from './weather/settings.ts';
import type { SubscribableType } from '../notify/event.ts';
import type { SinkDocument } from '../notify/sink-kinds.ts';
import type { BackendName, DestinationLocationDocument, LocationDocument } from '../storage/backends.ts';

/**
 * The configuration as it stands in YAML once `schema.ts` has accepted it: the file's own names and units,
 * every fixed default filled in. `resolve.ts` turns it into a `Config`; nothing else reads it.
 */
export interface ConfigDocument {
  secrets: { directory?: string };
  trusted_directories: string[];
  upload_tokens: UploadTokenDocument[];
  server: {
    http: {
      listen: string;
      base_path: string;
      trusted_proxies: string[];
      allowed_hosts?: string[];
      retention: string;
      queue_size: number;
      max_concurrency: number;
      upload_timeout: string;
      idle_timeout: string;
      max_connections: number;
      max_streams: number;
      max_streams_per_client: number;
      max_uploads_per_token?: number;
      max_body_memory: string | number;
      protect_scene_maps: boolean;
      shutdown_timeout: string;
      protect_runs: boolean;
      cors?: { origins: string[] };
    };
    metrics: { enabled: boolean; token_env?: string };
    console: { enabled: boolean; session: string; session_key_env?: string };
    resumable: {
      max_uploads: number;
      max_bytes?: string | number;
      max_uploads_per_token?: number;
      max_bytes_per_token?: string | number;
      retention: string;
    };
    retry_for: string;
    run_timeout: string;
    discovery_timeout: string;
    rerun: { keep_for?: string; max_bundles?: number; max_bytes?: string | number };
    worker: { listen?: string };
    admin_token_env?: string;
    staging: StagingDocument;
    queue: { driver: 'memory' } | { driver: 'embedded'; directory: string } | BullmqDocument;
  };
  log: LogSettings;
  tracing?: { endpoint?: string; headers_env?: string; service_name?: string; sample_ratio?: number };
  pipelines: PipelineDocument[];
  notifiers: NotifierDocument[];
  databases: DatabaseDocument[];
  templates: { base_dir?: string };
  weather: WeatherDocument;
}

export interface UploadTokenDocument {
  id: string;
  value_env: string;
  pipelines: string[];
  scopes: Scope[];
  expires?: string;
}

export type StagingDocument = (
  | { backend: 'local'; directory: string }
  | Extract<LocationDocument, { backend: Exclude<BackendName, 'local'> }>
) & { keep: { size?: string | number; age: string } };

export interface BullmqDocument {
  driver: 'bullmq';
  /** Exactly one of the two is there. */
  redis_url_env?: string;
  redis_url_envs?: string[];
  signing_key_envs?: string[];
  prefix: string;
  worker_timeout: string;
  scratch_directory: string;
}

export interface PipelineDocument {
  id: string;
  source: SourceDocument;
  destinations: DestinationDocument[];
  max_waiting?: string | number;
  retry_for?: string;
  run_timeout?: string;
  discovery_timeout?: string;
  while_retrying: 'pass' | 'wait';
  schedule?: string;
  timezone: string;
  catch_up: 'none' | 'once';
  jitter: string;
  watch: boolean;
  settle: string;
  scene_maps: { content_rules: 'warning' | 'error' };
}

export interface UploadDocument {
  backend: 'http_upload';
  max_upload_size: string | number;
  max_files: number;
  manifest: 'required' | 'auto';
  include: string[];
  exclude: string[];
}

export type SourceDocument = (LocationDocument & SourceSettings) | UploadDocument;
interface SourceSettings {
  id?: string;
  manifest: 'required' | 'auto';
  include: string[];
  exclude: string[];
  links: 'refuse' | 'skip';
}

export type DestinationDocument = DestinationLocationDocument & {
  id: string;
  mapping: 'preserve_relative' | 'fixed';
  workflow: 'additive' | 'replacement';
  stale?: 'publish' | 'refuse';
  orphans: 'keep' | 'report' | 'remove';
  public_base_url?: string;
  cache_control?: string;
  outputs: {
    checksums: boolean;
    archive: boolean;
    index: boolean | 'auto';
    scene_map_page: boolean;
    root_index: boolean;
  };
  layout: 'in_place' | 'releases';
  releases?: {
    keep: number;
    linger: string;
    current_in_url: boolean;
    channels: Record<string, { ttl: string; public_base_url?: string }>;
  };
  limits: { max_removed?: string | number };
  retention: { prune: { enabled: boolean; keep_latest?: number; older_than?: string } };
  file_concurrency?: number;
};

export type NotifierDocument = {
  id: string;
  events: SubscribableType[];
  pipelines?: string[];
} & SinkDocument;
