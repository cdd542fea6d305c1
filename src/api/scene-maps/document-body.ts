import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import busboy from 'busboy';
import { WaybillError } from '../../core/errors.ts';
import { readBody, withBodyInMemory, type MemoryBodyPorts } from '../http/request/body-in-memory.ts';

/** Smaller than on the command line: the daemon answers other requests on the same thread. */
export const maxRequestBytes = 4 * 1024 * 1024;

/** A scene map to be checked, as a request carries it. */
export interface DocumentBody {
  document: Uint8Array;
  /** Of the file; `<body>` if the document is the body itself. */
  name: string;
  transcript: FormFile | null;
}

export interface FormFile {
  name: string;
  bytes: Buffer;
}

/**
 * Reads a document, or a form with the file `file` and perhaps `transcript`. Throws `unsupported_media_type`,
 * `upload_too_large`, `invalid_request`, and what `withBodyInMemory` throws.
 */
export async function readDocument(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<DocumentBody> {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw wrongType(res, 'This route takes no Content-Encoding.');
  if (/^application\/(?:[a-z0-9.-]+\+)?json$/.test(type)) {
    const document = await readBody(req, res, ports, { mostBytes: maxRequestBytes, tooLong });
    return { document, name: '<body>', transcript: null };
  }
  if (type !== 'multipart/form-data')
    throw wrongType(res, 'This route takes application/json or multipart/form-data.');
  const files = await withBodyInMemory(req, res, ports, (chunks) => readForm(req.headers, chunks));
  const file = files.get('file');
  if (file === undefined) throw unreadable('the form has no part `file`');
  return { document: file.bytes, name: file.name, transcript: files.get('transcript') ?? null };
}

/** The files of a form by the names of their parts, each at most `maxRequestBytes` long. */
async function readForm(
  headers: IncomingHttpHeaders,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Map<string, FormFile>> {
  const files = new Map<string, FormFile>();
  let refusal: WaybillError | undefined;
  const refuse = (error: WaybillError): void => void (refusal ??= error);
  const parser = openParser(headers);
  parser.on('file', (part: string | undefined, stream, { filename = '' }) => {
    const pieces: Buffer[] = [];
    if (part !== 'file' && part !== 'transcript')
      refuse(unreadable(`the form has the file "${(part ?? '').slice(0, 80)}"`));
    else if (files.has(part)) refuse(unreadable(`the form has a second part "${part}"`));
    else files.set(part, { name: filename, bytes: Buffer.alloc(0) });
    stream.on('data', (piece: Buffer) => void pieces.push(piece));
    stream.on('limit', () => refuse(tooLong()));
    stream.on('error', () => refuse(unreadable('the form ends within a file')));
    stream.on('end', () => files.set(part ?? '', { name: filename, bytes: Buffer.concat(pieces) }));
  });
  parser.on('field', (part: string | undefined) =>
    refuse(unreadable(`the form has the field "${(part ?? '').slice(0, 80)}"`)),
  );
  parser.on('error', (error: Error) => refuse(unreadable(error.message)));
  try {
    for await (const chunk of chunks) {
      await new Promise((resolve) => parser.write(chunk, resolve));
      if (refusal !== undefined) throw refusal;
    }
    await new Promise((resolve) => {
      parser.once('close', resolve).once('error', resolve);
      parser.end();
    });
    if (refusal !== undefined) throw refusal;
    return files;
  } finally {
    parser.destroy();
  }
}

function openParser(headers: IncomingHttpHeaders): busboy.Busboy {
  try {
    return busboy({
      headers,
      defParamCharset: 'utf8',
      limits: { fileSize: maxRequestBytes, files: 3, fields: 1, fieldSize: 0, headerPairs: 20 },
    });
  } catch (cause) {
    throw unreadable(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function tooLong(): WaybillError {
  return new WaybillError(
    'upload_too_large',
    `A document of at most ${maxRequestBytes} bytes is checked here.`,
    { hint: 'Use `waybill scene-map validate` for larger ones.' },
  );
}

function unreadable(reason: string, cause?: unknown): WaybillError {
  return new WaybillError('invalid_request', `The body cannot be read: ${reason}.`, {
    hint: 'Send JSON, or a form with the part `file` and, if wanted, the part `transcript`.',
    cause,
  });
}

function wrongType(res: ServerResponse, message: string): WaybillError {
  res.setHeader('Accept-Post', 'application/json, multipart/form-data');
  return new WaybillError('unsupported_media_type', message, {
    hint: 'Send the document as application/json, as it is.',
  });
}
