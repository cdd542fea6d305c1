import type { RequestHandler } from 'express';
import { freeText } from '../../core/lib/parameters.ts';
import type { NewPartialUpload } from '../../workers/staging/partial-upload.ts';
import { stagingFailure } from '../../workers/staging/staging-check.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { requestContext } from '../http/request/request-context.ts';
import {
  jsonContent,
  pipelineIdParameter,
  type ResponseObject,
  type Route,
  schemaRef,
} from '../http/route.ts';
import { pipelineAccessProblems } from '../pipelines/pipeline-access.ts';
import {
  channelQuery,
  idempotencyKeyParameter,
  idempotencyOf,
  requireChannel,
  rerunFailed,
} from '../runs/accept-run.ts';
import {
  admitCaller,
  callOf,
  expiresHeader,
  isResumable,
  refuseNothing,
  requireVersion,
  tusHeader,
  tusResumable,
  uploadDocument,
} from './resumable-upload.ts';
import { partialOf, partialParameter } from './take-upload.ts';
import { sendTus, speakTus, TusStore } from './tus-server.ts';
import type { UploadPorts } from './upload-service.ts';

const createQuery = queryParameters({ rerun_failed: rerunFailed, channel: channelQuery });

const created: ResponseObject = {
  description: 'The upload is created and has no data yet.',
  headers: {
    'Tus-Resumable': tusHeader,
    Location: {
      description: 'URL of the upload.',
      required: true,
      schema: { type: 'string', format: 'uri-reference' },
    },
    'Upload-Expires': { ...expiresHeader, required: true },
  },
};

export const createUploadRoute: Route<UploadPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/uploads',
  operationId: 'createUpload',
  tag: 'uploads',
  summary: 'Create a resumable upload',
  description:
    'For large archives and unreliable connections, with the protocol tus 1.0. The client sends the archive in any number of requests and resumes after a lost connection or a restart of the daemon. This request checks everything that does not need the archive. The upload takes a slot of the queue only with its last byte.',
  access: 'token',
  scopes: ['upload'],
  isTraced: true,
  parameters: [
    pipelineIdParameter,
    ...createQuery.parameters,
    idempotencyKeyParameter,
    partialParameter,
    tusResumable,
    {
      name: 'Upload-Length',
      in: 'header',
      description: 'Bytes of the archive.',
      schema: { type: 'integer', minimum: 1 },
    },
    {
      name: 'Upload-Defer-Length',
      in: 'header',
      description: 'Instead of `Upload-Length` if the length is not known yet. A later PATCH sets it.',
      schema: { const: 1 },
    },
    {
      name: 'Upload-Metadata',
      in: 'header',
      description: 'Stored with the upload and returned by HEAD. It has no other effect.',
      schema: { type: 'string' },
    },
  ],
  responses: { 201: created },
  problems: [
    ...pipelineAccessProblems,
    'invalid_request',
    'channel_not_found',
    'invalid_idempotency_key',
    'unsupported_tus_version',
    'shutting_down',
    'queue_unavailable',
    'queue_full',
    'pipeline_full',
    'upload_too_large',
    'idempotency_in_progress',
    'quota_exceeded',
    'partial_uploads_full',
    'insufficient_storage',
    'staging_unavailable',
  ],
  isPresent: isResumable,
  audit: 'upload',
  handle: (ports) => create(ports),
};

function create(ports: UploadPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { token, pipeline } = admitCaller(req, res, ports);
    const query = createQuery.read(req.url);
    const { channel } = query;
    if (channel !== null) requireChannel(pipeline, channel);
    const asked = idempotencyOf(req, { caller: token.id, rerunFailed: query.rerun_failed });
    requireVersion(req, res);
    refuseNothing(req);
    const wanted: NewPartialUpload = {
      pipelineId: pipeline.id,
      caller: token.id,
      key: asked.idempotency?.key ?? null,
      rerunFailed: query.rerun_failed,
      channel,
      length: null,
      partial: partialOf(req),
      maxBytes: pipeline.maxUploadSize,
      metadata: null,
    };
    try {
      // Check that the queue has room now. The place in the queue is only taken once the upload is complete.
      await (await ports.queue.reserve({ pipelineId: pipeline.id, ...asked })).release();
      await ports.uploads.room();
      const store = new TusStore(ports.uploads.partialUploads, wanted);
      const answer = await speakTus({
        ...callOf(ports, pipeline),
        method: 'POST',
        headers: req.headers,
        store,
      });
      // Nothing to audit yet; there is no run until the upload is complete.
      requestContext(req).act = null;
      requestContext(req).fields['upload_id'] = answer.headers.get('location')?.split('/').at(-1) ?? '';
      sendTus(res, answer);
    } catch (error) {
      throw stagingFailure(error);
    }
  };
}

export const uploadOptionsRoute: Route<UploadPorts> = {
  method: 'options',
  path: '/v1/pipelines/{pipeline_id}/uploads',
  operationId: 'getUploadOptions',
  tag: 'uploads',
  summary: 'Get tus version and limits',
  access: 'token',
  scopes: ['upload'],
  parameters: [pipelineIdParameter],
  responses: {
    204: {
      description: 'Version, extensions and the largest archive.',
      headers: {
        'Tus-Resumable': tusHeader,
        'Tus-Version': { ...tusHeader, description: 'All versions.' },
        'Tus-Extension': { description: 'Extensions.', required: true, schema: { type: 'string' } },
        'Tus-Max-Size': {
          description: 'Maximum size of an archive for the pipeline, in bytes.',
          required: true,
          schema: { type: 'integer' },
        },
      },
    },
  },
  problems: pipelineAccessProblems,
  isPresent: isResumable,
  audit: { none: 'it describes the server' },
  handle: (ports) => sendUploadOptions(ports),
};

function sendUploadOptions(ports: UploadPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipeline } = admitCaller(req, res, ports);
    const store = new TusStore(ports.uploads.partialUploads);
    sendTus(
      res,
      await speakTus({ ...callOf(ports, pipeline), method: 'OPTIONS', headers: req.headers, store }),
    );
  };
}

const listQuery = queryParameters({
  idempotency_key: freeText(255, {
    description: 'Lists only uploads that were created with this `Idempotency-Key`.',
    example: 'session-42-build-7',
  }),
});

/** The list can be long, because completed uploads stay in it for a day. */
const maxShown = 500;

export const listUploadsRoute: Route<UploadPorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/uploads',
  operationId: 'listUploads',
  tag: 'uploads',
  summary: 'List resumable uploads',
  description: `Lets a client that was interrupted find the uploads of its token to the pipeline. The most recently active come first, at most ${maxShown}. \`idempotency_key\` and \`metadata\` identify the archive.`,
  access: 'token',
  scopes: ['upload'],
  parameters: [pipelineIdParameter, ...listQuery.parameters],
  responses: {
    200: {
      description: 'The uploads, including those whose run is accepted.',
      headers: { 'Tus-Resumable': tusHeader },
      content: jsonContent({
        description: 'Resumable uploads of a token to a pipeline.',
        type: 'object',
        additionalProperties: false,
        required: ['uploads'],
        properties: { uploads: { type: 'array', items: schemaRef('PartialUpload') } },
      }),
    },
  },
  problems: [...pipelineAccessProblems, 'invalid_request'],
  isPresent: isResumable,
  handle: (ports) => list(ports),
};

function list(ports: UploadPorts): RequestHandler<{ pipelineId: string }> {
  return (req, res) => {
    const { token, pipeline } = admitCaller(req, res, ports);
    const { idempotency_key: key } = listQuery.read(req.url);
    const uploads = ports.uploads.partialUploads
      .list(token.id, pipeline.id)
      .filter((upload) => key === null || upload.key === key)
      .slice(0, maxShown);
    res.json({ uploads: uploads.map((upload) => uploadDocument(upload, ports.uploads.partialUploads)) });
  };
}
