import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, Response } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import type { PartialUpload } from '../../workers/staging/partial-upload.ts';
import { unknownUpload } from '../../workers/staging/partial-uploads.ts';
import type { Token } from '../http/auth.ts';
import { requestContext } from '../http/request/request-context.ts';
import { authorizeUpload } from '../upload/authorize-upload.ts';
import type { UploadPipeline } from '../upload/ports.ts';
import type { ResumablePorts, UploadParams } from './ports.ts';
import { tusVersion, type TusCall } from './speak-tus.ts';

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
): Pick<TusCall, 'mostBytes' | 'pathOf'> {
  return {
    mostBytes: maxUploadSize,
    pathOf: (uploadId) => `${http.basePath}v1/pipelines/${encodeURIComponent(id)}/uploads/${uploadId}`,
  };
}
