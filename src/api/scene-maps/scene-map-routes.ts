import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import multer, { MulterError } from 'multer';
import { WaybillError } from '../../core/errors.ts';
import { choice } from '../../core/parameters.ts';
import type { Transcript } from '../../core/scene-map/transcript.ts';
import { jsonContent, schemaRef } from '../http/json-content.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag, taggedAnswer } from '../http/send-with-etag.ts';

/** Smaller than on the command line: the daemon answers other requests on the same thread. */
export const maxRequestBytes = 4 * 1024 * 1024;

const validateQuery = queryParameters({
  schema_only: choice(['true', 'false', ''], 'false', { description: 'Leaves the content rules out.' }),
});

/** The answer is 200 with the report whether or not the document is valid. */
export const validateSceneMapRoute: Route<object> = {
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
  problems: ['unsupported_media_type', 'upload_too_large', 'invalid_request'],
  handle: () => [takeBody, answer],
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

const json = express.raw({ type: isJson, limit: maxRequestBytes, inflate: false });
const form = multer({
  storage: multer.memoryStorage(),
  limits: { fileSize: maxRequestBytes, files: 2, fields: 0, parts: 3 },
  defParamCharset: 'utf8',
}).fields([
  { name: 'file', maxCount: 1 },
  { name: 'transcript', maxCount: 1 },
]);

function isJson(request: { headers: Request['headers'] }): boolean {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return /^application\/(?:[a-z0-9.-]+\+)?json$/.test(type);
}

function takeBody(request: Request, response: Response, next: NextFunction): void {
  const encoding = request.headers['content-encoding'];
  const isForm = request.is('multipart/form-data') !== false && request.is('multipart/form-data') !== null;
  if ((encoding !== undefined && encoding !== 'identity') || (!isJson(request) && !isForm)) {
    response.set('Accept-Post', 'application/json, multipart/form-data');
    const message =
      encoding === undefined
        ? 'This route takes application/json or multipart/form-data.'
        : 'This route takes no Content-Encoding.';
    throw new WaybillError('unsupported_media_type', message, {
      hint: 'Send the document as application/json, as it is.',
    });
  }
  const take = isForm ? form : json;
  void take(request, response, (error: unknown) => {
    if (error === undefined || error === null) next();
    else next(bodyError(error));
  });
}

function bodyError(error: unknown): WaybillError {
  const type = (error as { type?: unknown }).type;
  if (type === 'entity.too.large' || (error instanceof MulterError && error.code === 'LIMIT_FILE_SIZE')) {
    return new WaybillError(
      'upload_too_large',
      `A document of at most ${maxRequestBytes} bytes is checked here.`,
      {
        hint: 'Use `waybill scene-map validate` for larger ones.',
        cause: error,
      },
    );
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new WaybillError('invalid_request', `The body cannot be read: ${reason}.`, {
    hint: 'Send JSON, or a form with the part `file` and, if wanted, the part `transcript`.',
    cause: error,
  });
}

const answer: RequestHandler = async (request, response) => {
  const { document, name, transcript } = partsOf(request);
  const schemaOnly = validateQuery.read(request.url).schema_only !== 'false';
  const [{ checkSceneMap }, { sceneMapReport }] = await Promise.all([
    import('../../core/scene-map/read-scene-map.ts'),
    import('../../core/scene-map/report.ts'),
  ]);
  const known = transcript === null ? {} : { transcript: await openTranscript(transcript) };
  const findings = checkSceneMap(document, name, { schemaOnly, ...known });
  response.set('Cache-Control', 'no-store').json(sceneMapReport([{ file: name, findings }]));
};

interface Parts {
  document: Uint8Array;
  name: string;
  transcript: Express.Multer.File | null;
}

function partsOf(request: Request): Parts {
  if (request.files === undefined || Array.isArray(request.files)) {
    const body: unknown = request.body;
    return {
      document: body instanceof Uint8Array ? body : new Uint8Array(),
      name: '<body>',
      transcript: null,
    };
  }
  const file = request.files['file']?.[0];
  if (file === undefined)
    throw new WaybillError('invalid_request', 'The form has no part `file`.', {
      hint: 'Send the scene map as the file part `file`.',
    });
  return {
    document: file.buffer,
    name: file.originalname,
    transcript: request.files['transcript']?.[0] ?? null,
  };
}

async function openTranscript(file: Express.Multer.File): Promise<Transcript> {
  const { readTranscript } = await import('../../core/scene-map/transcript.ts');
  try {
    return readTranscript(file.buffer, file.originalname);
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
