import type { Manifest } from '../../core/bundle/manifest.ts';
import type { DestinationConfig, PipelineConfig } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import type { PublishJob } from '../../workers/queue/job.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { ContentStore } from '../../workers/staging/content-store.ts';
import type { PartialUploads } from '../../workers/staging/partial-uploads.ts';
import type { StagingArea } from '../../workers/staging/staged-directories.ts';
import type { HttpPorts } from '../http/app.ts';
import type { Token } from '../http/auth.ts';
import type { BodyPorts } from '../http/request/request-body.ts';
import type { Shares } from '../http/request/shares.ts';

/** The tokens and the pipelines that take uploads. A reload replaces it. */
export interface UploadAccess {
  tokens: readonly Token[];
  /** The pipelines that take uploads, by id. */
  uploadPipelines: ReadonlyMap<string, UploadPipeline>;
}

/** The ports of the upload routes. */
export interface UploadPorts extends HttpPorts, BodyPorts {
  http: HttpPorts['http'];
  configured: Current<UploadAccess>;
  queue: JobQueue;
  /** The archives that are being received, by token. */
  archives: Shares;
  staging: StagingArea;
  /** Throws `insufficient_storage` if the disk of staging has hardly any room for another upload. */
  room: () => Promise<void>;
  stage: StageUpload;
  /** Files of earlier uploads. */
  content: Pick<ContentStore, 'isOn' | 'missing'>;
  /** What publishing a staged bundle, or what a source holds, would do; nothing is changed. */
  plan: (job: PublishJob, signal: AbortSignal) => Promise<RunResult>;
}

export interface UploadPipeline {
  id: string;
  /** Bytes; applies to the archive as well as to what it contains. */
  maxUploadSize: number;
  maxFiles: number;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest?: PipelineConfig['autoManifest'];
  /** The channels that some destination has. */
  channels: readonly string[];
  destinations: readonly Pick<DestinationConfig, 'id' | 'outputs' | 'releases'>[];
}

/** `stageUpload` of the core. */
export type StageUpload = (request: {
  input: AsyncIterable<Uint8Array>;
  directory: string;
  limits: { maxUploadSize: number; maxFiles: number };
  signal: AbortSignal;
  pipelineId: string;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest: PipelineConfig['autoManifest'];
  /** Of the manifest of an archive that may leave out files that are kept; null: it is whole. */
  partial: Digest | null;
  /** Whether its files are kept for later uploads. */
  keeps: boolean;
}) => Promise<StagedUpload>;

/** A staged and valid bundle. */
export interface StagedUpload {
  directory: string;
  bundlePath: string;
  manifest: Pick<Manifest, 'name' | 'files' | 'document'>;
  /** Digest of the manifest and of the bytes that it does not declare, for idempotency keys. */
  contentDigest: Digest;
  /** Size of the files that the manifest lists. */
  bytes: number;
}

/** The ports of the routes of resumable uploads. */
export interface ResumablePorts extends Omit<UploadPorts, 'plan'> {
  partialUploads: PartialUploads;
}

/** Parameters of the path of one upload. */
export interface UploadParams {
  pipelineId: string;
  uploadId: string;
}
