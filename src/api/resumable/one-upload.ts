import type { Request } from 'express';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { type Hold, offsetOf, type PartialUpload } from '../../workers/staging/partial-upload.ts';
import { unknownUpload, type PartialUploads } from '../../workers/staging/partial-uploads.ts';
import { stagingFailure } from '../../workers/staging/staging-check.ts';
import type { Header, Parameter } from '../http/openapi-types.ts';
import type { UploadPipeline } from '../upload/ports.ts';
import { callOf } from './admit.ts';
import type { ResumablePorts, UploadParams } from './ports.ts';
import { speakTus } from './speak-tus.ts';
import { TusStore } from './tus-store.ts';
import { callerProblems } from './uploads-routes.ts';

/*
 * What all requests about one upload have in common.
 */

export const uploadPath = '/v1/pipelines/{pipeline_id}/uploads/{upload_id}';
export const uploadIdParameter: Parameter = {
  name: 'upload_id',
  in: 'path',
  required: true,
  description: 'Id of an upload that this token has begun, as in its `Location`.',
  schema: { type: 'string' },
};
export const offsetHeader: Header = {
  description: 'Bytes that have come: where to go on. All of them once the run is accepted, and not before.',
  required: true,
  schema: { type: 'integer', minimum: 0 },
};
export const outcomeHeaders: Record<string, Header> = {
  Location: {
    description: "Present once the run is accepted: where the run's record is.",
    schema: { type: 'string', format: 'uri-reference' },
  },
  'Idempotency-Replayed': {
    description: 'Present where the key was used before: the run is the one of then.',
    schema: { const: 'true' },
  },
};
export const uploadProblems: readonly ErrorCode[] = [...callerProblems, 'upload_not_found'];

/** `PartialUpload` of the document. Pure. */
export function uploadDocument(
  upload: PartialUpload,
  { retentionMs }: Pick<PartialUploads, 'retentionMs'>,
): object {
  const { id, length, key, metadata, touchedAt, outcome } = upload;
  return {
    upload_id: id,
    offset: offsetOf(upload),
    length,
    expires_at: new Date(touchedAt.getTime() + retentionMs).toISOString(),
    idempotency_key: key,
    metadata,
    run_id: outcome?.runId ?? null,
    position: outcome?.position ?? null,
    replayed: outcome?.replayed ?? false,
  };
}

/** Does `work` while no other request changes the upload, which may have gone before that. */
export async function holding(
  { partialUploads }: ResumablePorts,
  { id }: PartialUpload,
  work: (hold: Hold) => Promise<void>,
): Promise<void> {
  const hold = await partialUploads.hold(id);
  try {
    if (partialUploads.find(id) === undefined) throw unknownUpload();
    await work(hold);
  } catch (error) {
    throw stagingFailure(error);
  } finally {
    hold.release();
  }
}

/** What the protocol answers about one upload. */
export function ask(
  ports: ResumablePorts,
  pipeline: UploadPipeline,
  {
    req,
    method,
    upload,
    chunks,
  }: {
    req: Request<UploadParams>;
    method: 'HEAD' | 'PATCH' | 'DELETE';
    upload: PartialUpload;
    chunks?: AsyncIterable<Uint8Array>;
  },
): ReturnType<typeof speakTus> {
  return speakTus({
    ...callOf(ports, pipeline),
    method,
    headers: req.headers,
    store: new TusStore(ports.partialUploads),
    uploadId: upload.id,
    ...(chunks === undefined ? {} : { chunks }),
  });
}
