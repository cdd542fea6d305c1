import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import multer, { MulterError } from 'multer';
import { WaybillError } from '../../core/lib/errors.ts';
import { formReason } from '../http/request/form-reason.ts';
import { type MemoryBodyPorts, readBody, withBodyInMemory } from '../http/request/request-body.ts';
import { isJson, mediaTypeOf } from '../http/request/request-head.ts';

/** In bytes. The limit is lower than on the command line, because requests share the daemon's memory. */
export const maxRequestBytes = 4 * 1024 * 1024;

/** A scene map to validate, and its transcript if there is one. */
export interface DocumentBody {
  document: Uint8Array;
  /** The name of the file, or `<body>` if the document was not sent as a form. */
  name: string;
  transcript: FormFile | null;
}

export interface FormFile {
  name: string;
  bytes: Buffer;
}

/**
 * Reads a scene map, either as the request body itself or from a form with the file `file` and optionally the
 * file `transcript`. Throws `unsupported_media_type`, `upload_too_large`, `invalid_request`, and the same
 * errors as `withBodyInMemory`.
 */
export async function readDocument(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<DocumentBody> {
  const type = mediaTypeOf(req);
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw wrongType(res, 'this route does not support a Content-Encoding');
  if (isJson(type)) {
    const document = await readBody(req, res, ports, { maxBytes: maxRequestBytes, tooLong });
    return { document, name: '<body>', transcript: null };
  }
  if (type !== 'multipart/form-data')
    throw wrongType(res, 'this route accepts application/json or multipart/form-data');
  const files = await withBodyInMemory(req, res, ports, {
    maxBytes: maxFormBytes,
    read: (chunks) => readForm(req.headers, chunks),
  });
  const file = files.get('file');
  if (file === undefined) throw unreadable('the form has no part `file`');
  return { document: file.bytes, name: file.name, transcript: files.get('transcript') ?? null };
}

/** Enough for two files of maximum size and the multipart headers. */
const maxFormBytes = 2 * maxRequestBytes + 64 * 1024;

/** The parts of a request that Multer uses. */
interface FormRequest extends Readable {
  headers: IncomingHttpHeaders;
  files?: Record<string, Express.Multer.File[]>;
}

const parts = [
  { name: 'file', maxCount: 1 },
  { name: 'transcript', maxCount: 1 },
];

const takeForm = multer({
  storage: multer.memoryStorage(),
  limits: { fileSize: maxRequestBytes, files: 2, fields: 0, parts: 3, headerPairs: 20 },
  defParamCharset: 'utf8',
}).fields(parts) as unknown as (
  request: FormRequest,
  response: object,
  next: (error?: unknown) => void,
) => void;

/**
 * Returns the files of a form by field name. Each may be up to `maxRequestBytes` long. Multer reads from a
 * stand-in for the request, so that the body's limits can end it. If the form is rejected, the rest of it is
 * read anyway.
 */
async function readForm(
  headers: IncomingHttpHeaders,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Map<string, FormFile>> {
  const request: FormRequest = Object.assign(Readable.from(limited(chunks), { objectMode: false }), {
    headers,
  });
  try {
    await new Promise<void>((resolve, reject) => {
      takeForm(request, {}, (error) =>
        error === undefined || error === null ? resolve() : reject(formError(error)),
      );
    });
  } finally {
    request.destroy();
  }
  const files = Object.entries(request.files ?? {});
  return new Map(
    files.flatMap(([part, [file]]) =>
      file === undefined ? [] : [[part, { name: file.originalname, bytes: file.buffer }]],
    ),
  );
}

async function* limited(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > maxFormBytes) throw tooLong();
    yield chunk;
  }
}

function formError(error: unknown): WaybillError {
  if (error instanceof WaybillError) return error;
  if (!(error instanceof MulterError))
    return unreadable(error instanceof Error ? formReason(error) : 'the form is invalid', error);
  if (error.code === 'LIMIT_FILE_SIZE') return tooLong();
  return unreadable(reasonOf(error), error);
}

function reasonOf({ code, field = '', message }: MulterError): string {
  switch (code) {
    case 'LIMIT_UNEXPECTED_FILE':
      return parts.some(({ name }) => name === field)
        ? `the form has a second file "${field}"`
        : `the form has the file "${field.slice(0, 80)}"`;
    case 'LIMIT_FIELD_COUNT':
      return 'the form has a part without a filename';
    case 'LIMIT_FILE_COUNT':
    case 'LIMIT_PART_COUNT':
      return 'the form has more than two parts';
    case 'MISSING_FIELD_NAME':
      return 'a part of the form has no name';
    default:
      return `the form is invalid: ${message}`;
  }
}

function tooLong(): WaybillError {
  return new WaybillError('upload_too_large', `the document is larger than ${maxRequestBytes} bytes`, {
    hint: 'use waybill scene-map validate for larger documents',
  });
}

function unreadable(reason: string, cause?: unknown): WaybillError {
  return new WaybillError('invalid_request', reason, {
    hint: 'send JSON, or a form with the part `file` and, if wanted, the part `transcript`',
    cause,
  });
}

function wrongType(res: ServerResponse, message: string): WaybillError {
  res.setHeader('Accept-Post', 'application/json, multipart/form-data');
  return new WaybillError('unsupported_media_type', message, {
    hint: 'send the document as application/json, as it is',
  });
}
