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
import type { TokenAccess } from '../http/auth.ts';
import type { BodyPorts } from '../http/request/request-body.ts';
import type { Shares } from '../http/request/shares.ts';

/** The tokens and the pipelines that receive uploads. A reload replaces it. */
export interface UploadAccess extends TokenAccess {
  /** The pipelines that receive uploads, by id. */
  uploadPipelines: ReadonlyMap<string, UploadPipeline>;
}

/** The dependencies of the upload routes. */
export interface UploadPorts extends HttpPorts, BodyPorts {
  http: HttpPorts['http'];
  configured: Current<UploadAccess>;
  queue: JobQueue;
  /** Archives being transferred, by token. */
  archives: Shares;
  staging: StagingArea;
  /** Throws `insufficient_storage` if the staging disk is nearly full. */
  room: () => Promise<void>;
  stage: StageUpload;
  /** Files of earlier uploads. */
  content: Pick<ContentStore, 'isOn' | 'missing'>;
  /** Computes what publishing a staged bundle or a source would do. Changes nothing. */
  plan: (job: PublishJob, signal: AbortSignal) => Promise<RunResult>;
}

export interface UploadPipeline {
  id: string;
  /** In bytes. Applies both to the archive and to its contents. */
  maxUploadSize: number;
  maxFiles: number;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest?: PipelineConfig['autoManifest'];
  signatures?: PipelineConfig['signatures'];
  /** The channels that are configured at one or more destinations. */
  channels: readonly string[];
  destinations: readonly Pick<DestinationConfig, 'id' | 'outputs' | 'releases'>[];
}

/** The core's `stageUpload`. */
export type StageUpload = (request: {
  input: AsyncIterable<Uint8Array>;
  directory: string;
  limits: { maxUploadSize: number; maxFiles: number };
  signal: AbortSignal;
  pipelineId: string;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest: PipelineConfig['autoManifest'];
  signatures?: PipelineConfig['signatures'];
  /** The manifest digest of an archive that may omit kept files; null if the archive is complete. */
  partial: Digest | null;
  /** Whether the upload's files are kept for later uploads. */
  keeps: boolean;
}) => Promise<StagedUpload>;

/** A staged and valid bundle. */
export interface StagedUpload {
  directory: string;
  bundlePath: string;
  manifest: Pick<Manifest, 'name' | 'files' | 'document'>;
  /** Digest of the manifest and of the bytes that it does not declare. Used for idempotency keys. */
  contentDigest: Digest;
  /** Same as `StagedBundle.description`. */
  description: Digest;
  /** Total size of the files in the manifest, in bytes. */
  bytes: number;
}

/** The dependencies of the resumable upload routes. */
export interface ResumablePorts extends Omit<UploadPorts, 'plan'> {
  partialUploads: PartialUploads;
}

/** The path parameters of an upload. */
export interface UploadParams {
  pipelineId: string;
  uploadId: string;
}
