import type { Request, RequestHandler, Response } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { choice } from '../../core/lib/parameters.ts';
import type { SceneMapPool } from '../../workers/threads/scene-map-pool.ts';
import { sendCompressed } from '../http/answer/send-compressed.ts';
import { taggedAnswer } from '../http/answer/send-with-etag.ts';
import { authenticate, challenge, noteCaller, type TokenAccess } from '../http/auth.ts';
import type { HttpPorts } from '../http/http-app.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { MemoryBodyPorts } from '../http/request/request-body.ts';
import { keepAuthorized, requestContext } from '../http/request/request-context.ts';
import { callerOf, createShares } from '../http/request/shares.ts';
import { jsonContent, type Route, schemaRef } from '../http/route.ts';
import { maxRequestBytes, readDocument } from './document-body.ts';

const validateQuery = queryParameters({
  schema_only: choice(['true', 'false', ''], 'false', { description: 'Skips the content rules.' }),
});

export interface SceneMapPorts extends MemoryBodyPorts {
  http: MemoryBodyPorts['http'] & Pick<HttpPorts['http'], 'protectSceneMaps'>;
  configured: Current<TokenAccess>;
  sceneMaps: Pick<SceneMapPool, 'check'>;
}

/**
 * The maximum number of documents being validated or waiting. A single client can have up to half of them.
 */
const maxChecks = { total: 8, perOwner: 4 };
/** The maximum number of findings in a report. If there are more, one extra finding says so. */
const maxReported = 1_000;

/** Validates a scene map. The status is 200 even if the document is invalid; the report says so. */
export const validateSceneMapRoute: Route<SceneMapPorts> = {
  method: 'post',
  path: '/v1/scene-maps/validate',
  operationId: 'validateSceneMap',
  tag: 'scene maps',
  summary: 'Validate a session scene map',
  description:
    'Stores nothing. Returns 200 with a report for valid and invalid documents. A report has at most 1,000 findings. Needs a token of `upload_tokens` only with `server.http.protect_scene_maps`.',
  access: 'optional',
  parameters: validateQuery.parameters,
  body: {
    description: `The document, at most ${maxRequestBytes / 1024 / 1024} MiB. A form has the part \`file\`, and optionally \`transcript\` to check the segments.`,
    required: true,
    content: {
      'application/json': { schema: schemaRef('SceneMap') },
      'multipart/form-data': {
        schema: {
          type: 'object',
          required: ['file'],
          properties: {
            file: { type: 'string', contentMediaType: 'application/json' },
            transcript: { type: 'string', contentMediaType: 'application/octet-stream' },
          },
        },
      },
    },
  },
  responses: { 200: { description: 'The report.', content: jsonContent('SceneMapReport') } },
  problems: ['token_expired', 'unsupported_media_type', 'upload_too_large', 'invalid_request', 'server_busy'],
  audit: { none: 'it keeps nothing' },
  handle: (ports) => checkDocument(ports),
};

export const sceneMapSchemaRoute: Route<object> = {
  method: 'get',
  path: '/v1/schemas/scene-map.json',
  operationId: 'getSceneMapSchema',
  tag: 'scene maps',
  summary: 'Get the scene map schema',
  access: 'open',
  responses: {
    200: {
      description: 'The schema (2020-12).',
      headers: {
        ETag: { description: 'Entity tag of the schema.', required: true, schema: { type: 'string' } },
      },
      content: { 'application/schema+json': { schema: { type: 'object', required: ['$schema', '$id'] } } },
    },
    304: { description: 'The schema has not changed.' },
  },
  problems: [],
  handle: () => sendSchema,
};

function checkDocument(ports: SceneMapPorts): RequestHandler {
  const checks = createShares(maxChecks);
  return async (request, response) => {
    if (ports.http.protectSceneMaps) keepAuthorized(request, () => requireToken(request, response, ports));
    const schemaOnly = validateQuery.read(request.url).schema_only !== 'false';
    const { document: bytes, name, transcript } = await readDocument(request, response, ports);
    const { owner } = callerOf(request);
    if (checks.take(owner, 1) !== null) throw tooMany();
    try {
      const runId = `scene-map.${requestContext(request).id}`;
      const asked = { runId, pipelineId: '', file: { name, bytes }, transcript, schemaOnly, maxReported };
      const report = await ports.sceneMaps.check(asked);
      response.set('Cache-Control', 'no-store').type('json').send(report);
    } finally {
      checks.give(owner, 1);
    }
  };
}

function requireToken(req: Request, res: Response, { configured, clock }: SceneMapPorts): void {
  const token = challenge(req, res, () => authenticate(req.headers.authorization, configured.get(), clock));
  noteCaller(req, token);
}

function tooMany(): WaybillError {
  return new WaybillError('server_busy', 'too many scene maps are being checked', {
    hint: 'try again later, or use waybill scene-map validate',
  });
}

const sendSchema: RequestHandler = async (request, response) => {
  const { sceneMapSchemaText } = await import('../../core/scene-map/schema-file.ts');
  const schema = taggedAnswer('application/schema+json; charset=utf-8', sceneMapSchemaText(), {
    headers: { 'Cache-Control': 'public, max-age=3600' },
    vary: 'Accept-Encoding',
  });
  await sendCompressed(request, response, schema);
};
