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
import { requestContext, requireAuthorized } from '../http/request/request-context.ts';
import type { Header, Parameter } from '../http/route.ts';
import type { ResumablePorts, UploadParams, UploadPipeline } from './ports.ts';
import { accept, stageFor, withStagingDirectory } from './staged-upload.ts';
import { authorizeUpload } from './take-upload.ts';
import { speakTus, type TusCall, TusStore, tusVersion } from './tus-server.ts';

/** Whether uploads in several requests are taken at all. */
export function isSpoken({ partialUploads }: Pick<ResumablePorts, 'partialUploads'>): boolean {
  return partialUploads.maxUploads > 0;
}

/** Checks the token as for a plain upload. Throws what `authorizeUpload` throws. */
export function admitCaller(
  req: Request<{ pipelineId: string }>,
  res: Response,
  ports: Pick<ResumablePorts, 'configured' | 'clock'>,
): { token: Token; pipeline: UploadPipeline } {
  res.setHeader('Tus-Resumable', tusVersion);
  return authorizeUpload(req, res, ports);
}

/** Throws `unsupported_tus_version`. */
export function requireVersion(req: IncomingMessage, res: ServerResponse): void {
  const asked = req.headers['tus-resumable'];
  if (asked === tusVersion) return;
  res.setHeader('Tus-Version', tusVersion);
  throw new WaybillError(
    'unsupported_tus_version',
    asked === undefined
      ? 'the request has no Tus-Resumable header'
      : `tus ${String(asked)} is not spoken here`,
    { hint: `send \`Tus-Resumable: ${tusVersion}\`` },
  );
}

/**
 * The upload of the path, which belongs to one token and one pipeline: for any other there is none. Throws
 * also what `admitCaller` throws.
 */
export function admitToUpload(
  req: Request<UploadParams>,
  res: Response,
  ports: Pick<ResumablePorts, 'configured' | 'clock' | 'partialUploads'>,
): { pipeline: UploadPipeline; upload: PartialUpload } {
  const { token, pipeline } = admitCaller(req, res, ports);
  const upload = ports.partialUploads.find(req.params.uploadId);
  if (upload?.caller !== token.id || upload.pipelineId !== pipeline.id) throw unknownUpload();
  requestContext(req).fields['upload_id'] = upload.id;
  return { pipeline, upload };
}

/** Throws `invalid_request` for an archive of no bytes, which the protocol would take for done. */
export function refuseNothing(req: IncomingMessage): void {
  if (req.headers['upload-length'] !== '0') return;
  throw new WaybillError('invalid_request', 'an archive has at least one byte', {
    hint: 'send the length of the archive as Upload-Length',
  });
}

/** What the protocol needs to know about the pipeline. */
export function callOf(
  { http }: Pick<ResumablePorts, 'http'>,
  { id, maxUploadSize }: UploadPipeline,
): Pick<TusCall, 'maxBytes' | 'pathOf'> {
  return {
    maxBytes: maxUploadSize,
    pathOf: (uploadId) => `${http.basePath}v1/pipelines/${encodeURIComponent(id)}/uploads/${uploadId}`,
  };
}

/** What `admitCaller` throws, but for what the routes' access implies. */
export const callerProblems: readonly ErrorCode[] = [
  'pipeline_not_found',
  'forbidden',
  'token_expired',
  'insufficient_scope',
];

/** The header of every request of the protocol. */
export const tusResumable: Parameter = {
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
  description: 'When the upload is removed if nothing more comes.',
  schema: { type: 'string' },
};

export const oneUploadPath = '/v1/pipelines/{pipeline_id}/uploads/{upload_id}';
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
export const resumableProblems: readonly ErrorCode[] = [...callerProblems, 'upload_not_found'];

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

/**
 * Makes a run of an upload whose bytes are all there, with every check of a plain upload. Throws what that is
 * refused with. What may pass leaves the upload as it is, without its last byte; anything else removes it.
 */
export async function finishUpload(
  ports: ResumablePorts,
  pipeline: UploadPipeline,
  upload: PartialUpload,
  req: IncomingMessage,
): Promise<void> {
  const { partialUploads } = ports;
  try {
    const outcome = await hand(ports, pipeline, upload, req);
    await partialUploads
      .end(upload.id, outcome)
      .catch((error: unknown) =>
        ports.log.error({ err: error }, 'what came of an upload could not be noted'),
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
  ports: ResumablePorts,
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
      const staged = await stageFor(ports, pipeline, upload.channel, {
        input: ports.partialUploads.open(upload.id),
        directory,
        signal: ports.stopping,
        partial: upload.partial,
        keeps: true,
      });
      // Staging a large archive takes long: its token may be gone by now.
      requireAuthorized(req);
      return accept(ports, pipeline, admission, staged, upload.channel, requestContext(req).trace);
    });
    return { runId: accepted.record.run_id, position: accepted.position, replayed: accepted.replayed };
  } finally {
    await admission.release();
  }
}

/**
 * Without a key of the client the upload is its own: a daemon that ended between the acceptance and its
 * answer finds the run when the last byte is sent again. The caller is no id that a token can have.
 */
function idempotencyOf({
  id,
  caller,
  key,
  rerunFailed,
}: PartialUpload): NonNullable<AdmissionRequest['idempotency']> {
  return key === null ? { caller: `partial:${caller}`, key: id } : { caller, key, rerunFailed };
}
