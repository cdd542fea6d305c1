import { createHash } from 'node:crypto';
import express, {
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
  Router,
} from 'express';
import multer, { MulterError } from 'multer';
import { WaybillError } from '../../core/errors.ts';
import type { Transcript } from '../../core/scene-map/transcript.ts';

/** The daemon answers other requests meanwhile: documents are smaller here than on the command line. */
export const maxRequestBytes = 4 * 1024 * 1024;

/**
 * `POST /v1/scene-maps/validate` and `GET /v1/schemas/scene-map.json`.
 *
 * The document is the JSON body, or the part `file` of a form with, if wanted, the part `transcript`; `?schema_only=true` leaves the content
 * rules out. The answer is 200 with the report whether or not the document is valid. Errors are passed on as `WaybillError`.
 */
export function sceneMapRoutes(): Router {
  const router = Router();
  router.route('/v1/scene-maps/validate').post(takeBody, answer).all(refuseMethod('POST'));
  router.route('/v1/schemas/scene-map.json').get(sendSchema).all(refuseMethod('GET, HEAD'));
  return router;
}

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
  const schemaOnly = flag(request.query['schema_only'], 'schema_only');
  const [{ checkSceneMap }, { sceneMapReport }] = await Promise.all([
    import('../../core/scene-map/validate.ts'),
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

function flag(value: unknown, name: string): boolean {
  if (value === undefined || value === 'false') return false;
  if (value === 'true' || value === '') return true;
  throw new WaybillError('invalid_request', `The parameter ${name} is true or false.`, {
    hint: `Write ?${name}=true.`,
  });
}

const sendSchema: RequestHandler = async (_request, response) => {
  const { sceneMapSchemaText } = await import('../../core/scene-map/schema-file.ts');
  const text = sceneMapSchemaText();
  response.set({
    'Content-Type': 'application/schema+json; charset=utf-8',
    'Cache-Control': 'public, max-age=3600',
    ETag: `"${createHash('sha256').update(text).digest('hex').slice(0, 32)}"`,
  });
  response.send(text);
};

function refuseMethod(allowed: string): RequestHandler {
  return (request, response) => {
    response.set('Allow', allowed);
    throw new WaybillError('method_not_allowed', `${request.path} does not take ${request.method}.`, {
      hint: `Use ${allowed}.`,
    });
  };
}
