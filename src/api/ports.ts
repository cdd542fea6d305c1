import type { RequestHandler } from 'express';
import type { PipelineConfig, ServerConfig } from '../core/config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Digest } from '../core/digest.ts';
import type { Log } from '../core/log.ts';
import type { StagingArea } from '../workers/coordinator.ts';
import type { JobQueue } from '../workers/queue.ts';
import type { Token } from './http/auth.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { WeatherService } from './weather/service.ts';

/** Everything that the routes work with; wired by `main.ts`, or by a test. */
export interface ApiPorts {
  http: ServerConfig['http'];
  clock: Clock;
  log: Log;
  tokens: readonly Token[];
  /** The pipelines that take uploads, by id. */
  pipelines: ReadonlyMap<string, UploadPipeline>;
  /** Ids of the pipelines that have a source of their own, which operators may start. */
  sourcePipelines: ReadonlySet<string>;
  queue: JobQueue;
  staging: StagingArea;
  stage: StageUpload;
  /** Null where the configuration switches them off. */
  metrics: Metrics | null;
  /** What `/metrics` asks for; null: nothing. */
  metricsToken: Token | null;
  /** Null where no database is configured. */
  weather: WeatherService | null;
  /** Aborts when uploads that are still being received have to end. */
  stopping: AbortSignal;
  isDraining: () => boolean;
  /** The board of the queues, where there is one. */
  board?: RequestHandler | null;
}

export interface UploadPipeline {
  id: string;
  /** Bytes, of the archive and of what it holds. */
  maxUploadSize: number;
  maxFiles: number;
  sceneMaps: PipelineConfig['sceneMaps'];
}

/** `stageUpload` of the core. */
export type StageUpload = (request: {
  input: AsyncIterable<Uint8Array>;
  directory: string;
  limits: { maxUploadSize: number; maxFiles: number };
  signal: AbortSignal;
  pipelineId: string;
  sceneMaps: PipelineConfig['sceneMaps'];
}) => Promise<StagedUpload>;

/** What a request needs to know of a bundle that is staged and valid. */
export interface StagedUpload {
  directory: string;
  bundlePath: string;
  manifestDigest: Digest;
  /** Of the files that the manifest lists. */
  bytes: number;
}
