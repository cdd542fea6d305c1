import type { PartialUploads } from '../../workers/staging/partial-uploads.ts';
import type { UploadPorts } from '../upload/ports.ts';

/** What the routes of resumable uploads need. */
export interface ResumablePorts extends Omit<UploadPorts, 'plan'> {
  partialUploads: PartialUploads;
}

/** Parameters of the path of one upload. */
export interface UploadParams {
  pipelineId: string;
  uploadId: string;
}
