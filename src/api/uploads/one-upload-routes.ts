import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import { type Hold, offsetOf, type PartialUpload } from '../../workers/staging/partial-upload.ts';
import { continueIfExpected } from '../http/request/client-connection.ts';
import { withBody } from '../http/request/request-body.ts';
import { requestContext } from '../http/request/request-context.ts';
import { takeShare } from '../http/request/shares.ts';
import { jsonContent, pipelineIdParameter, type ResponseObject, type Route } from '../http/route.ts';
import {
  admitToUpload,
  ask,
  expiresHeader,
  finishUpload,
  holding,
  isResumable,
  offsetHeader,
  oneUploadPath,
  outcomeHeaders,
  refuseNothing,
  requireVersion,
  resumableProblems,
  tusHeader,
  tusResumable,
  uploadDocument,
  uploadIdParameter,
} from './resumable-upload.ts';
import { bundleProblems } from './take-upload.ts';
import { addRunHeaders, chunkType, sendTus, type speakTus } from './tus-server.ts';
import type { UploadParams, UploadPipeline, UploadPorts } from './upload-service.ts';

export const showUploadRoute: Route<UploadPorts> = {
  method: 'get',
  path: oneUploadPath,
  operationId: 'getUpload',
  tag: 'uploads',
  summary: 'Get a resumable upload',
  description:
    '`HEAD` follows the tus protocol: it needs `Tus-Resumable`, ends a request that is still sending the upload, and gets 423 while the upload is being handed to the queue. `GET` has no side effects.',
  access: 'token',
  scopes: ['upload'],
  parameters: [pipelineIdParameter, uploadIdParameter],
  responses: {
    200: {
      description: 'The upload, and its run once it is accepted.',
      headers: { 'Tus-Resumable': tusHeader, 'Upload-Offset': offsetHeader, ...outcomeHeaders },
      content: jsonContent('PartialUpload'),
    },
  },
  problems: resumableProblems,
  isPresent: isResumable,
  handle: (ports) => show(ports),
};

function show(ports: UploadPorts): RequestHandler<UploadParams> {
  return async (req, res) => {
    const { pipeline, upload } = admitToUpload(req, res, ports);
    if (req.method === 'HEAD') {
      requireVersion(req, res);
      await holding(ports, upload, async () => {
        sendTus(res, await ask(ports, pipeline, { req, method: 'HEAD', upload }));
      });
      return;
    }
    const { outcome } = upload;
    res.setHeader('Upload-Offset', offsetOf(upload));
    if (outcome !== null) addRunHeaders(res, ports.http.basePath, outcome);
    res.json(uploadDocument(upload, ports.uploads.partialUploads));
  };
}

export const removeUploadRoute: Route<UploadPorts> = {
  method: 'delete',
  path: oneUploadPath,
  operationId: 'removeUpload',
  tag: 'uploads',
  summary: 'Cancel a resumable upload',
  description: 'Removes the received bytes. A run that was already accepted is not affected.',
  access: 'token',
  scopes: ['upload'],
  parameters: [pipelineIdParameter, uploadIdParameter, tusResumable],
  responses: { 204: { description: 'The upload is removed.', headers: { 'Tus-Resumable': tusHeader } } },
  problems: [...resumableProblems, 'unsupported_tus_version', 'upload_locked'],
  isPresent: isResumable,
  audit: 'upload.remove',
  handle: (ports) => remove(ports),
};

function remove(ports: UploadPorts): RequestHandler<UploadParams> {
  return async (req, res) => {
    const { pipeline, upload } = admitToUpload(req, res, ports);
    requireVersion(req, res);
    await holding(ports, upload, async () => {
      sendTus(res, await ask(ports, pipeline, { req, method: 'DELETE', upload }));
    });
  };
}

const chunkTaken: ResponseObject = {
  description: 'The bytes are stored. With the last byte, the run is accepted, and `Location` is present.',
  headers: {
    'Tus-Resumable': tusHeader,
    'Upload-Offset': offsetHeader,
    'Upload-Expires': expiresHeader,
    ...outcomeHeaders,
  },
};

export const sendUploadRoute: Route<UploadPorts> = {
  method: 'patch',
  path: oneUploadPath,
  operationId: 'sendUpload',
  tag: 'uploads',
  summary: 'Append to an upload',
  description:
    'Appends any number of bytes at `Upload-Offset`. Bytes that arrived before a lost connection are kept. The response to the last byte is sent after the bundle is staged and validated. It is that of an upload in one request. After a retryable error, the last byte can be sent again. If two requests overlap, the later one continues and the earlier one ends.',
  access: 'token',
  scopes: ['upload'],
  isTraced: true,
  parameters: [
    pipelineIdParameter,
    uploadIdParameter,
    tusResumable,
    {
      name: 'Upload-Offset',
      in: 'header',
      required: true,
      description: 'Offset of the body in the archive. It must be the current offset of the upload.',
      schema: { type: 'integer', minimum: 0 },
    },
    {
      name: 'Upload-Length',
      in: 'header',
      description: 'Size of the archive in bytes, if the upload was created with `Upload-Defer-Length`.',
      schema: { type: 'integer', minimum: 1 },
    },
  ],
  body: { description: 'Bytes of the archive.', required: true, content: { [chunkType]: {} } },
  responses: { 204: chunkTaken },
  problems: [
    ...resumableProblems,
    'unsupported_tus_version',
    'unsupported_media_type',
    'invalid_request',
    'upload_locked',
    'upload_offset_conflict',
    'upload_too_large',
    'queue_unavailable',
    'quota_exceeded',
    'queue_full',
    'pipeline_full',
    'idempotency_in_progress',
    'idempotency_conflict',
    ...bundleProblems,
    'insufficient_storage',
    'staging_unavailable',
  ],
  isPresent: isResumable,
  audit: 'upload',
  handle: (ports) => send(ports),
};

function send(ports: UploadPorts): RequestHandler<UploadParams> {
  return async (req, res) => {
    const { pipeline, upload } = admitToUpload(req, res, ports);
    requireVersion(req, res);
    requireChunk(req, res);
    refuseNothing(req);
    takeShare(req, res, ports.uploads.archives, 'uploads');
    await holding(ports, upload, async (hold) => {
      continueIfExpected(req, res);
      const context = requestContext(req);
      context.act = null;
      const answer = await receiveChunk(ports, pipeline, { req, upload, hold });
      if (upload.outcome === null && upload.received === upload.length) {
        Object.assign(context, { finishesUpload: true, act: 'upload' });
        await finishUpload(ports, pipeline, upload, req);
      }
      const { outcome } = upload;
      if (outcome !== null) {
        context.fields['run_id'] = outcome.runId;
        addRunHeaders(res, ports.http.basePath, outcome);
      }
      sendTus(res, answer);
    });
  };
}

function requireChunk(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers['content-type'] === chunkType && req.headers['content-encoding'] === undefined) return;
  res.setHeader('Accept-Patch', chunkType);
  throw new WaybillError('unsupported_media_type', 'the body is not described as bytes of an upload', {
    hint: `send \`Content-Type: ${chunkType}\`, and no Content-Encoding`,
  });
}

/** Appends the request's chunk to the upload. If the body ends early, everything received so far is kept. */
function receiveChunk(
  ports: UploadPorts,
  pipeline: UploadPipeline,
  { req, upload, hold }: { req: Request<UploadParams>; upload: PartialUpload; hold: Hold },
): ReturnType<typeof speakTus> {
  const stopping = AbortSignal.any([ports.stopping, hold.taken]);
  return withBody(req, { ...ports, stopping }, async ({ chunks }) => {
    const ended: unknown[] = [];
    async function* come(): AsyncGenerator<Uint8Array> {
      try {
        yield* chunks;
      } catch (error) {
        // Throwing here would discard data that has been received but not yet written.
        ended.push(error);
      }
    }
    const answer = await ask(ports, pipeline, { req, method: 'PATCH', upload, chunks: come() });
    if (ended.length > 0) throw ended[0];
    return answer;
  });
}
