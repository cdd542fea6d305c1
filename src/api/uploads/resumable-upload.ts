import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { AdmissionRequest } from '../../workers/queue/job-queue.ts';
import {
  type Hold,
  offsetOf,
  type PartialOutcome,
  type PartialUpload,
} from '../../workers/staging/partial-upload.ts';
import { type PartialUploads, unknownUpload } from '../../workers/staging/partial-uploads.ts';
import { stagingFailure } from '../../workers/staging/staging-check.ts';
import { isConcealed } from '../http/answer/error-status.ts';
import type { Token } from '../http/auth.ts';
import { originOf, requestContext, requireAuthorized } from '../http/request/request-context.ts';
import type { Header, OpenApiParameter } from '../http/route.ts';
import { pipelineAccessProblems } from '../pipelines/pipeline-access.ts';
import { accept, stageFor, withStagingDirectory } from './staged-upload.ts';
import { authorizeUpload } from './take-upload.ts';
import { speakTus, type TusCall, TusStore, tusVersion } from './tus-server.ts';
import type { UploadParams, UploadPipeline, UploadPorts } from './upload-service.ts';

export function isResumable({ uploads }: Pick<UploadPorts, 'uploads'>): boolean {
  return uploads.partialUploads.maxUploads > 0;
}

/**
 * Authorizes a request in the same way as for a plain upload. Throws the same errors as `authorizeUpload`.
 */
export function admitCaller(
  req: Request<{ pipelineId: string }>,
  res: Response,
  ports: Pick<UploadPorts, 'configured' | 'clock'>,
): { token: Token; pipeline: UploadPipeline } {
  res.setHeader('Tus-Resumable', tusVersion);
  return authorizeUpload(req, res, ports);
}

/** Throws `unsupported_tus_version` if the client does not use a version that we support. */
export function requireVersion(req: IncomingMessage, res: ServerResponse): void {
  const asked = req.headers['tus-resumable'];
  if (asked === tusVersion) return;
  res.setHeader('Tus-Version', tusVersion);
  throw new WaybillError(
    'unsupported_tus_version',
    asked === undefined ? 'the request has no Tus-Resumable header' : `tus ${String(asked)} is not supported`,
    { hint: `send \`Tus-Resumable: ${tusVersion}\`` },
  );
}

/**
 * Returns the upload in the path. Only the token that created it can use it, and only in the same pipeline;
 * everyone else gets `upload_not_found`. Also throws the same errors as `admitCaller`.
 */
export function admitToUpload(
  req: Request<UploadParams>,
  res: Response,
  ports: Pick<UploadPorts, 'configured' | 'clock' | 'uploads'>,
): { pipeline: UploadPipeline; upload: PartialUpload } {
  const { token, pipeline } = admitCaller(req, res, ports);
  const upload = ports.uploads.partialUploads.find(req.params.uploadId);
  if (upload?.caller !== token.id || upload.pipelineId !== pipeline.id) throw unknownUpload();
  requestContext(req).fields['upload_id'] = upload.id;
  return { pipeline, upload };
}

/**
 * Throws `invalid_request` if the archive is empty. Otherwise, the protocol would consider it complete right
 * away.
 */
export function refuseNothing(req: IncomingMessage): void {
  if (req.headers['upload-length'] !== '0') return;
  throw new WaybillError('invalid_request', 'an archive has at least one byte', {
    hint: 'send the length of the archive as Upload-Length',
  });
}

/** Returns the pipeline's settings in the form that the tus server needs. */
export function callOf(
  { http }: Pick<UploadPorts, 'http'>,
  { id, maxUploadSize }: UploadPipeline,
): Pick<TusCall, 'maxBytes' | 'pathOf'> {
  return {
    maxBytes: maxUploadSize,
    pathOf: (uploadId) => `${http.basePath}v1/pipelines/${encodeURIComponent(id)}/uploads/${uploadId}`,
  };
}

/** The header that the protocol requires in every request. */
export const tusResumable: OpenApiParameter = {
  name: 'Tus-Resumable',
  in: 'header',
  required: true,
  description: 'The version of the protocol.',
  schema: { const: tusVersion },
};
export const tusHeader: Header = {
  description: 'The version of the protocol.',
  required: true,
  schema: { const: tusVersion },
};
export const expiresHeader: Header = {
  description: 'Time at which the upload is removed unless more data arrives.',
  schema: { type: 'string' },
};

export const oneUploadPath = '/v1/pipelines/{pipeline_id}/uploads/{upload_id}';
export const uploadIdParameter: OpenApiParameter = {
  name: 'upload_id',
  in: 'path',
  required: true,
  description: 'Id of an upload that this token created, as in its `Location`.',
  schema: { type: 'string' },
};
export const offsetHeader: Header = {
  description:
    'Number of bytes received: the offset of the next request. It equals the size only once the run is accepted.',
  required: true,
  schema: { type: 'integer', minimum: 0 },
};
export const outcomeHeaders: Record<string, Header> = {
  Location: {
    description: "Present once the run is accepted: the URL of the run's record.",
    schema: { type: 'string', format: 'uri-reference' },
  },
  'Idempotency-Replayed': {
    description: 'Present if the key was used before: the run is the earlier one.',
    schema: { const: 'true' },
  },
};
export const resumableProblems: readonly ErrorCode[] = [...pipelineAccessProblems, 'upload_not_found'];

/** Converts an upload to JSON, according to the `PartialUpload` schema. */
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

/**
 * Runs `work` while no other request can change the upload. Throws `upload_not_found` if it has been removed
 * in the meantime.
 */
export async function holding(
  { uploads: { partialUploads } }: Pick<UploadPorts, 'uploads'>,
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

/** Passes a request for one upload to the tus library and returns its response. */
export function ask(
  ports: UploadPorts,
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
    store: new TusStore(ports.uploads.partialUploads),
    uploadId: upload.id,
    chunks,
  });
}

/**
 * Starts a run for a completed upload, after the same checks as for a plain upload. If that fails with a
 * retryable or internal error, the upload is kept without its last byte, so that the client can send it
 * again. After any other error, it is removed.
 */
export async function finishUpload(
  ports: UploadPorts,
  pipeline: UploadPipeline,
  upload: PartialUpload,
  req: IncomingMessage,
): Promise<void> {
  const { partialUploads } = ports.uploads;
  try {
    const outcome = await hand(ports, pipeline, upload, req);
    await partialUploads
      .end(upload.id, outcome)
      .catch((error: unknown) =>
        ports.log.error({ err: error }, 'the result of an upload could not be recorded'),
      );
  } catch (thrown) {
    const error = stagingFailure(thrown);
    if (error instanceof WaybillError && !error.retryable && !isConcealed(error.code))
      await partialUploads
        .remove(upload.id)
        .catch((failure: unknown) =>
          ports.log.error({ err: failure }, 'a refused upload could not be removed'),
        );
    throw error;
  }
}

async function hand(
  ports: UploadPorts,
  pipeline: UploadPipeline,
  upload: PartialUpload,
  req: IncomingMessage,
): Promise<PartialOutcome> {
  const admission = await ports.queue.reserve({
    pipelineId: pipeline.id,
    idempotency: idempotencyOf(upload),
  });
  try {
    const { accepted } = await withStagingDirectory(ports, async (directory) => {
      const staged = await stageFor(ports.uploads, pipeline, upload.channel, {
        input: ports.uploads.partialUploads.read(upload.id),
        directory,
        signal: ports.stopping,
        partial: upload.partial,
        keeps: true,
      });
      // Staging a large archive takes time, so the token may have expired or been revoked by now.
      requireAuthorized(req);
      return accept(ports, pipeline, admission, staged, upload.channel, originOf(req));
    });
    return { runId: accepted.record.run_id, position: accepted.position, replayed: accepted.replayed };
  } finally {
    await admission.release();
  }
}

/**
 * Returns the key that the client sent or, without one, uses the id of the upload. If the daemon crashes
 * after accepting the run, the client sends the last byte again and gets the same run. The caller recorded
 * with such a key is not a valid token id, so the key cannot collide with one that a client sent.
 */
function idempotencyOf({
  id,
  caller,
  key,
  rerunFailed,
}: PartialUpload): NonNullable<AdmissionRequest['idempotency']> {
  return key === null ? { caller: `partial:${caller}`, key: id } : { caller, key, rerunFailed };
}
