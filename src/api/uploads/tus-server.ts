import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { DataStore, type Lock, Server, Upload } from '@tus/server';
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

/** A tus request that has passed all checks of its token, pipeline and limits. */
export interface TusCall {
  method: 'POST' | 'HEAD' | 'PATCH' | 'DELETE' | 'OPTIONS';
  headers: IncomingHttpHeaders;
  /** The body; PATCH only. */
  chunks?: AsyncIterable<Uint8Array>;
  store: TusStore;
  /** Set for every method except POST and OPTIONS. */
  uploadId?: string;
  /** Maximum size of an archive, in bytes. */
  maxBytes: number;
  /** Returns an upload's path. */
  pathOf: (id: string) => string;
}

export const tusVersion = '1.0.0';
export const chunkType = 'application/offset+octet-stream';

/** The headers defined by the protocol. Headers that a proxy may have added are not forwarded. */
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

// No locking is needed here, because the caller already holds the upload.
const noLock: Lock = { lock: async () => undefined, unlock: async () => undefined };

/**
 * Returns the status (2xx) and headers from `@tus/server`. Throws the same errors as the store, and every
 * refusal by the library as a `WaybillError`.
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
    // A POST body is not read, because `creation-with-upload` is not supported.
    if (typeof value === 'string' && (method === 'PATCH' || !name.startsWith('content-')))
      headers.set(name, value);
  }
  const body = chunks === undefined ? {} : { body: streamOf(chunks), duplex: 'half' };
  const response = await server.handleWeb(
    // Host and path do not matter, because the upload is already known.
    new Request('http://daemon/upload', { method, headers, ...body } as RequestInit),
  );
  if (failure !== undefined) throw refusal(failure);
  if (response.status >= 400) throw refusal({ status_code: response.status, body: await response.text() });
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
    // Do not read further than the writer has consumed.
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
 * Converts the library's refusals, which are plain values with a status and a sentence. Other errors pass
 * unchanged.
 */
function refusal(thrown: unknown): unknown {
  if (thrown instanceof Error || typeof thrown !== 'object' || thrown === null) return thrown;
  const { status_code: status, body } = thrown as { status_code?: number; body?: string };
  const code = codes[status ?? 500] ?? 'internal_error';
  return new WaybillError(code, (body ?? 'refused').trim().replace(/\.$/, ''), {
    hint: 'HEAD returns the state of an upload; docs/http-api.md describes the supported tus features',
  });
}

// CORS is the same for all routes, and there is no body to describe.
const notOurs = /^(access-control-.*|content-type|content-length)$/;

/** Sends the library's response, which has no body. */
export function sendTus(res: Response, { status, headers }: Awaited<ReturnType<typeof speakTus>>): void {
  res.status(status);
  for (const [name, value] of headers) if (!notOurs.test(name)) res.setHeader(name, value);
  // Statuses other than 204 need an explicit empty body.
  if (status !== 204) res.setHeader('Content-Length', 0);
  res.end();
}

/** Adds a finished upload's run to the response. */
export function addRunHeaders(res: Response, basePath: string, { runId, replayed }: PartialOutcome): void {
  if (replayed) res.setHeader('Idempotency-Replayed', 'true');
  res.location(`${basePath}runs/${encodeURIComponent(runId)}`);
}

/**
 * Adapts the daemon's partial uploads to `@tus/server` for one request. The library's own file store does not
 * detect a full disk, and it acknowledges the last byte before the run is accepted.
 *
 * @param wanted The upload that the request creates; undefined for other requests.
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
    // The library continues with its own object, which therefore needs the created upload's id.
    return Object.assign(upload, seen(created));
  }

  override async getUpload(id: string): Promise<Upload> {
    return seen(this.#find(id));
  }

  override async write(stream: Readable, id: string, offset: number): Promise<number> {
    if (this.#find(id).outcome === null) await this.#uploads.write(id, offset, stream);
    // The upload has finished. The library has already checked that the chunk starts at the end.
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
    ...(length === null ? {} : { size: length }),
    ...(metadata === null ? {} : { metadata }),
    // The library computes the expiry from this date.
    creation_date: touchedAt.toISOString(),
  });
}
