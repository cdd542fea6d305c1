import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import { choice } from '../../core/parameters.ts';
import type { Transcript } from '../../core/scene-map/transcript.ts';
import { jsonContent, schemaRef } from '../http/json-content.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { MemoryBodyPorts } from '../http/request/body-in-memory.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag, taggedAnswer } from '../http/answer/send-with-etag.ts';
import { maxRequestBytes, readDocument, type FormFile } from './document-body.ts';

const validateQuery = queryParameters({
  schema_only: choice(['true', 'false', ''], 'false', { description: 'Leaves the content rules out.' }),
});

/** The answer is 200 with the report whether or not the document is valid. */
export const validateSceneMapRoute: Route<MemoryBodyPorts> = {
  method: 'post',
  path: '/v1/scene-maps/validate',
  operationId: 'validateSceneMap',
  tag: 'scene maps',
  summary: 'Check a session scene map',
  description: 'Needs no token and keeps nothing. 200 with the report whether or not the document is valid.',
  access: 'open',
  parameters: validateQuery.parameters,
  body: {
    description: `The document, at most ${maxRequestBytes} bytes. In a form the part \`file\`, with a \`transcript\` beside it where the segments are to be checked too.`,
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
  problems: ['unsupported_media_type', 'upload_too_large', 'invalid_request', 'server_busy'],
  handle: (ports) => checkDocument(ports),
};

export const sceneMapSchemaRoute: Route<object> = {
  method: 'get',
  path: '/v1/schemas/scene-map.json',
  operationId: 'getSceneMapSchema',
  tag: 'scene maps',
  summary: 'The JSON Schema of session scene maps',
  access: 'open',
  responses: {
    200: {
      description: 'The schema (2020-12).',
      headers: { ETag: { description: 'Of the schema.', required: true, schema: { type: 'string' } } },
      content: { 'application/schema+json': { schema: { type: 'object', required: ['$schema', '$id'] } } },
    },
    304: { description: 'The schema is as it was.' },
  },
  problems: [],
  handle: () => sendSchema,
};

function checkDocument(ports: MemoryBodyPorts): RequestHandler {
  return async (request, response) => {
    const schemaOnly = validateQuery.read(request.url).schema_only !== 'false';
    const { document, name, transcript } = await readDocument(request, response, ports);
    const [{ checkSceneMap }, { sceneMapReport }] = await Promise.all([
      import('../../core/scene-map/read-scene-map.ts'),
      import('../../core/scene-map/report.ts'),
    ]);
    const known = transcript === null ? {} : { transcript: await openTranscript(transcript) };
    const findings = checkSceneMap(document, name, { schemaOnly, ...known });
    response.set('Cache-Control', 'no-store').json(sceneMapReport([{ file: name, findings }]));
  };
}

async function openTranscript({ bytes, name }: FormFile): Promise<Transcript> {
  const { readTranscript } = await import('../../core/scene-map/transcript.ts');
  try {
    return readTranscript(bytes, name);
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    throw new WaybillError('invalid_request', error.message, {
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      cause: error,
    });
  }
}

const sendSchema: RequestHandler = async (request, response) => {
  const { sceneMapSchemaText } = await import('../../core/scene-map/schema-file.ts');
  const schema = taggedAnswer('application/schema+json; charset=utf-8', sceneMapSchemaText(), {
    headers: { 'Cache-Control': 'public, max-age=3600' },
  });
  sendWithEtag(request, response, schema);
};
