import type { RequestHandler } from 'express';
import { freeText } from '../../core/lib/parameters.ts';
import { jsonContent, pipelineIdParameter, schemaRef } from '../http/json-content.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { Route } from '../http/route.ts';
import { admitCaller, isSpoken } from './admit.ts';
import { uploadDocument } from './one-upload.ts';
import type { ResumablePorts } from './ports.ts';
import { callerProblems, tusHeader } from './uploads-routes.ts';

const query = queryParameters({
  idempotency_key: freeText(255, {
    description: 'Only uploads that were begun with this `Idempotency-Key`.',
    example: 'session-42-build-7',
  }),
});

/** Those that have ended stay for a day, and may be many. */
const mostShown = 500;

export const listUploadsRoute: Route<ResumablePorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/uploads',
  operationId: 'listUploads',
  tag: 'uploads',
  summary: 'The resumable uploads of the token',
  description: `What a client needs that was ended in the middle and goes on: what this daemon has of its uploads to the pipeline, the one heard of last first, at most ${mostShown}. Which archive it is, \`idempotency_key\` and \`metadata\` say.`,
  access: 'token',
  parameters: [pipelineIdParameter, ...query.parameters],
  responses: {
    200: {
      description: 'All of them, also those whose run is accepted.',
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
  problems: [...callerProblems, 'invalid_request'],
  isPresent: isSpoken,
  handle: (ports) => list(ports),
};

function list(ports: ResumablePorts): RequestHandler<{ pipelineId: string }> {
  return (req, res) => {
    const { token, pipeline } = admitCaller(req, res, ports);
    const { idempotency_key: key } = query.read(req.url);
    const uploads = ports.partialUploads
      .of(token.id, pipeline.id)
      .filter((upload) => key === null || upload.key === key)
      .slice(0, mostShown);
    res.json({ uploads: uploads.map((upload) => uploadDocument(upload, ports.partialUploads)) });
  };
}
