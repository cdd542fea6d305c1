import type { RequestHandler } from 'express';
import { offsetOf } from '../../workers/staging/partial-upload.ts';
import { jsonContent, pipelineIdParameter } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import { admitToUpload, isSpoken, requireVersion } from './admit.ts';
import {
  ask,
  holding,
  offsetHeader,
  outcomeHeaders,
  uploadDocument,
  uploadIdParameter,
  uploadPath,
  uploadProblems,
} from './one-upload.ts';
import type { ResumablePorts, UploadParams } from './ports.ts';
import { sendTus, tellOutcome } from './send-tus.ts';
import { tusHeader, tusResumable } from './uploads-routes.ts';

export const showUploadRoute: Route<ResumablePorts> = {
  method: 'get',
  path: uploadPath,
  operationId: 'getUpload',
  tag: 'uploads',
  summary: 'Where a resumable upload stands',
  description:
    '`HEAD` is that of the tus protocol: it needs `Tus-Resumable`, ends a request that still sends the upload, and is refused with 423 while the upload is handed to the queue. `GET` changes nothing.',
  access: 'token',
  parameters: [pipelineIdParameter, uploadIdParameter],
  responses: {
    200: {
      description: 'The upload, and its run once that is accepted.',
      headers: { 'Tus-Resumable': tusHeader, 'Upload-Offset': offsetHeader, ...outcomeHeaders },
      content: jsonContent('PartialUpload'),
    },
  },
  problems: uploadProblems,
  isPresent: isSpoken,
  handle: (ports) => show(ports),
};

function show(ports: ResumablePorts): RequestHandler<UploadParams> {
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
    if (outcome !== null) tellOutcome(res, ports.http.basePath, outcome);
    res.json(uploadDocument(upload, ports.partialUploads));
  };
}

export const removeUploadRoute: Route<ResumablePorts> = {
  method: 'delete',
  path: uploadPath,
  operationId: 'removeUpload',
  tag: 'uploads',
  summary: 'Give a resumable upload up',
  description: 'Removes what has come of it. A run that was accepted stays.',
  access: 'token',
  parameters: [pipelineIdParameter, uploadIdParameter, tusResumable],
  responses: { 204: { description: 'It is gone.', headers: { 'Tus-Resumable': tusHeader } } },
  problems: [...uploadProblems, 'unsupported_tus_version', 'upload_locked'],
  isPresent: isSpoken,
  handle: (ports) => remove(ports),
};

function remove(ports: ResumablePorts): RequestHandler<UploadParams> {
  return async (req, res) => {
    const { pipeline, upload } = admitToUpload(req, res, ports);
    requireVersion(req, res);
    await holding(ports, upload, async () => {
      sendTus(res, await ask(ports, pipeline, { req, method: 'DELETE', upload }));
    });
  };
}
