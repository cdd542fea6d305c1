import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { DataStore, ERRORS, type Lock, Server, Upload } from '@tus/server';
import type { Response } from 'express';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import {
  type NewPartialUpload,
  offsetOf,
  type PartialOutcome,
  type PartialUpload,
} from '../../workers/staging/partial-upload.ts';
import { type PartialUploads, unknownUpload } from '../../workers/staging/partial-uploads.ts';

/** A tus request that has been authorized and is within the limits. */
export interface TusCall {
  method: 'POST' | 'HEAD' | 'PATCH' | 'DELETE' | 'OPTIONS';
  headers: IncomingHttpHeaders;
  /** The body of a PATCH request. */
  chunks?: AsyncIterable<Uint8Array>;
  store: TusStore;
  /** The id of the upload, except for POST and OPTIONS. */
  uploadId?: string;
  /** The maximum size of the archive, in bytes. */
  maxBytes: number;
  pathOf: (id: string) => string;
}

export const tusVersion = '1.0.0';
export const chunkType = 'application/offset+octet-stream';

/** The headers that the protocol defines. All others are dropped, because a proxy may have added them. */
const forwardedHeaders = [
  'content-length',
  'content-type',
  'tus-resumable',
  'upload-concat',
  'upload-defer-length',
  'upload-length',
  'upload-metadata',
  'upload-offset',
];

// Locking is not necessary, because the caller already has exclusive access to the upload.
const noLock: Lock = { lock: async () => undefined, unlock: async () => undefined };

/**
 * Passes a request to `@tus/server` and returns the status, which is 2xx, and the headers of its response.
 * Throws the same errors as the store. Errors from the library are converted to `WaybillError`.
 */
export async function speakTus(call: TusCall): Promise<{ status: number; headers: Map<string, string> }> {
  const { method, chunks, store, uploadId = '', maxBytes, pathOf } = call;
  let failure: unknown;
  const server = new Server({
    path: '/',
    datastore: store,
    locker: { newLock: () => noLock },
    maxSize: maxBytes,
    generateUrl: (_request, { id }) => pathOf(id),
    getFileIdFromRequest: () => uploadId,
    allowedOrigins: [],
    onResponseError: (_request, error) => {
      failure = error;
      return undefined;
    },
  });
  const headers = new Headers();
  for (const name of forwardedHeaders) {
    const value = call.headers[name];
    // `creation-with-upload` is not supported, so POST requests have no body to describe.
    if (typeof value === 'string' && (method === 'PATCH' || !name.startsWith('content-')))
      headers.set(name, value);
  }
  const body = chunks === undefined ? {} : { body: streamOf(chunks), duplex: 'half' };
  const response = await server.handleWeb(
    // The host and path can be anything, since we already know which upload it is.
    new Request('http://daemon/upload', { method, headers, ...body } as RequestInit),
  );
  if (failure !== undefined) throw refusal(failure, call);
  if (response.status >= 400)
    throw refusal({ status_code: response.status, body: await response.text() }, call);
  return { status: response.status, headers: new Map(response.headers) };
}

function streamOf(chunks: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      pull: async (controller) => {
        const next = await iterator.next();
        if (next.done === true) controller.close();
        else controller.enqueue(next.value);
      },
      cancel: () => void iterator.return?.(),
    },
    // Only read as fast as the data is written.
    { highWaterMark: 0 },
  );
}

const codes: Record<number, ErrorCode> = {
  400: 'invalid_request',
  403: 'invalid_request',
  404: 'upload_not_found',
  409: 'upload_offset_conflict',
  410: 'upload_not_found',
  412: 'unsupported_tus_version',
  413: 'upload_too_large',
  501: 'invalid_request',
};

/**
 * Converts errors from the library, which are plain objects with a status and a message. Other errors are
 * returned unchanged.
 */
function refusal(thrown: unknown, call: TusCall): unknown {
  if (thrown instanceof Error || typeof thrown !== 'object' || thrown === null) return thrown;
  const { status_code: status, body = '' } = thrown as { status_code?: number; body?: string };
  const code = codes[status ?? 500] ?? 'internal_error';
  const [message, hint = askForState] = explain(body.trim(), call);
  return new WaybillError(code, message, { hint });
}

const askForState =
  'HEAD returns the state of an upload; docs/http-api.md describes the supported tus features';

/** Returns the message for an error of the library, and its hint. */
function explain(body: string, { method, headers, maxBytes }: TusCall): [message: string, hint?: string] {
  const value = (name: string): string =>
    `${name}: ${String(headers[name.toLowerCase()] ?? '').slice(0, 80)}`;
  const [, invalid] = /^Invalid ([a-z -]+)$/.exec(body) ?? [];
  if (invalid !== undefined)
    return [`the request has invalid headers: ${invalid.split(' ').map(value).join(', ')}`];
  switch (body) {
    case ERRORS.ERR_MAX_SIZE_EXCEEDED.body.trim():
      return [
        `the archive has more than ${maxBytes} bytes, the maximum of this pipeline (${value('Upload-Length')})`,
        'split the bundle, or ask the administrator to raise max_upload_size',
      ];
    case ERRORS.ERR_SIZE_EXCEEDED.body.trim():
      return [`the body goes beyond the end of the upload (${value('Upload-Offset')})`];
    case ERRORS.INVALID_OFFSET.body.trim():
      return [
        `the upload does not continue at this offset (${value('Upload-Offset')})`,
        'request the offset with HEAD, and continue from there',
      ];
    case ERRORS.MISSING_OFFSET.body.trim():
      return ['the request has no Upload-Offset header', 'send the offset that HEAD returns'];
    case ERRORS.INVALID_LENGTH.body.trim():
      return method === 'POST'
        ? ['the request needs either Upload-Length or Upload-Defer-Length: 1']
        : [`the length is known already, or more bytes have arrived (${value('Upload-Length')})`];
    case ERRORS.UNSUPPORTED_CONCATENATION_EXTENSION.body.trim():
      return ['concatenation is not supported', 'disable parallel uploads in the tus client'];
    default:
      return [body.replace(/\.$/, '')];
  }
}

// Headers not to copy from the library's response. CORS is handled elsewhere, and there is no body.
const notOurs = /^(access-control-.*|content-type|content-length)$/;

/** Sends the library's response. It never has a body. */
export function sendTus(res: Response, { status, headers }: Awaited<ReturnType<typeof speakTus>>): void {
  res.status(status);
  for (const [name, value] of headers) if (!notOurs.test(name)) res.setHeader(name, value);
  // A 204 has no body by definition. For any other status, say so.
  if (status !== 204) res.setHeader('Content-Length', 0);
  res.end();
}

export function addRunHeaders(res: Response, basePath: string, { runId, replayed }: PartialOutcome): void {
  if (replayed) res.setHeader('Idempotency-Replayed', 'true');
  res.location(`${basePath}runs/${encodeURIComponent(runId)}`);
}

/**
 * Lets `@tus/server` use the daemon's partial uploads, for a single request. The library's own file store
 * does not notice when the disk is full, and acknowledges the last byte before we have accepted the run.
 *
 * @param wanted The upload to create, if that is what the request is for.
 */
export class TusStore extends DataStore {
  readonly #uploads: PartialUploads;
  readonly #wanted: NewPartialUpload | undefined;

  constructor(uploads: PartialUploads, wanted?: NewPartialUpload) {
    super();
    this.#uploads = uploads;
    this.#wanted = wanted;
    this.extensions = ['creation', 'creation-defer-length', 'termination', 'expiration'];
  }

  override async create(upload: Upload): Promise<Upload> {
    if (this.#wanted === undefined) throw new TypeError('the request creates no upload');
    const created = await this.#uploads.create({
      ...this.#wanted,
      length: upload.size ?? null,
      metadata: upload.metadata ?? null,
    });
    // The library keeps using the object it passed in, so copy the id to it.
    return Object.assign(upload, seen(created));
  }

  override async getUpload(id: string): Promise<Upload> {
    return seen(this.#find(id));
  }

  override async write(stream: Readable, id: string, offset: number): Promise<number> {
    if (this.#find(id).outcome === null) await this.#uploads.write(id, offset, stream);
    // The upload is already complete, so there is nothing to write. The library has checked that the chunk
    // starts at the end.
    else stream.resume();
    const { received, outcome } = this.#find(id);
    return outcome === null ? received : offset;
  }

  override async declareUploadLength(id: string, length: number): Promise<void> {
    await this.#uploads.declareLength(id, length);
  }

  override async remove(id: string): Promise<void> {
    this.#find(id);
    await this.#uploads.remove(id);
  }

  override getExpiration(): number {
    return this.#uploads.retentionMs;
  }

  #find(id: string): PartialUpload {
    const upload = this.#uploads.find(id);
    if (upload === undefined) throw unknownUpload();
    return upload;
  }
}

function seen(upload: PartialUpload): Upload {
  const { id, length, metadata, touchedAt } = upload;
  return new Upload({
    id,
    offset: offsetOf(upload),
    size: length ?? undefined,
    metadata: metadata ?? undefined,
    // The library uses this date to compute when the upload expires.
    creation_date: touchedAt.toISOString(),
  });
}
