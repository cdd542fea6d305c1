import type { Manifest } from '../../core/bundle/manifest.ts';
import type { DestinationConfig, PipelineConfig } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { ContentStore } from '../../workers/staging/content-store.ts';
import type { PartialUploads } from '../../workers/staging/partial-uploads.ts';
import type { StagingArea } from '../../workers/staging/staged-directories.ts';
import type { PublishingThreads } from '../../workers/threads/publishing-pool.ts';
import type { TokenAccess } from '../http/auth.ts';
import type { RoutePorts } from '../http/http-app.ts';
import type { Shares } from '../http/request/shares.ts';

/** The configured tokens, and the pipelines that receive uploads. Replaced on reload. */
export interface UploadAccess extends TokenAccess {
  /** Pipelines that receive uploads, by id. */
  uploadPipelines: ReadonlyMap<string, UploadPipeline>;
}

export interface UploadPorts extends RoutePorts {
  configured: Current<UploadAccess>;
  queue: JobQueue;
  uploads: UploadService;
  /** Computes plans for dry runs. */
  threads: Pick<PublishingThreads, 'plan'>;
}

export interface UploadService {
  /** Limits how many archives each token can transfer at a time. */
  archives: Shares;
  staging: StagingArea;
  /** Throws `insufficient_storage` if the staging disk is almost full. */
  room: () => Promise<void>;
  stage: StageUpload;
  /** The files kept from earlier uploads. */
  content: Pick<ContentStore, 'isEnabled' | 'missing'>;
  /** The resumable uploads that are not complete yet. */
  partialUploads: PartialUploads;
}

export interface UploadPipeline {
  id: string;
  /** In bytes. Limits both the archive and its extracted files. */
  maxUploadSize: number;
  maxFiles: number;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest?: PipelineConfig['autoManifest'];
  signatures?: PipelineConfig['signatures'];
  /** The channels that at least one of the destinations has. */
  channels: readonly string[];
  destinations: readonly Pick<DestinationConfig, 'id' | 'outputs' | 'releases'>[];
}

/** Stages an upload; see `stageUpload` in the core. */
export type StageUpload = (request: {
  input: AsyncIterable<Uint8Array>;
  directory: string;
  limits: { maxUploadSize: number; maxFiles: number };
  signal: AbortSignal;
  pipelineId: string;
  sceneMaps: PipelineConfig['sceneMaps'];
  autoManifest: PipelineConfig['autoManifest'];
  signatures?: PipelineConfig['signatures'];
  /**
   * The digest of the manifest, if the archive leaves out files that the server already has. null if the
   * archive is complete.
   */
  partial: Digest | null;
  /** Whether to keep the files, so that later uploads can omit them. */
  keeps: boolean;
}) => Promise<StagedUpload>;

/** A bundle that has been staged and validated. */
export interface StagedUpload {
  directory: string;
  bundlePath: string;
  manifest: Pick<Manifest, 'name' | 'files' | 'document'>;
  /**
   * A digest of the manifest and of any content that it does not declare. Used to compare uploads that have
   * the same idempotency key.
   */
  contentDigest: Digest;
  /** See `StagedBundle.description`. */
  description: Digest;
  /** The total size of the files in the manifest, in bytes. */
  bytes: number;
}

export interface UploadParams {
  pipelineId: string;
  uploadId: string;
}
