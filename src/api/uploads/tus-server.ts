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

/** A request of the tus protocol, after everything that concerns token, pipeline and limits. */
export interface TusCall {
  method: 'POST' | 'HEAD' | 'PATCH' | 'DELETE' | 'OPTIONS';
  headers: IncomingHttpHeaders;
  /** Of a PATCH. */
  chunks?: AsyncIterable<Uint8Array>;
  store: TusStore;
  /** Of all but POST and OPTIONS. */
  uploadId?: string;
  /** What an archive may have at most, in bytes. */
  maxBytes: number;
  /** The path of an upload, by its id. */
  pathOf: (id: string) => string;
}

export const tusVersion = '1.0.0';
export const chunkType = 'application/offset+octet-stream';

/** The request's own that the protocol knows, and what a proxy may have added is none of it. */
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

// The caller holds the upload already.
const noLock: Lock = { lock: async () => undefined, unlock: async () => undefined };

/**
 * What `@tus/server` answers: a status of 2xx and headers. Throws what the store throws, and every refusal of
 * the library as a `WaybillError`.
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
    // A body of a POST is not read: `creation-with-upload` is not spoken.
    if (typeof value === 'string' && (method === 'PATCH' || !name.startsWith('content-')))
      headers.set(name, value);
  }
  const body = chunks === undefined ? {} : { body: streamOf(chunks), duplex: 'half' };
  const response = await server.handleWeb(
    // Host and path do not matter: the upload is known.
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
    // Nothing is read ahead of what is written.
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

/** The library throws plain values with a status and a sentence; everything else passes unchanged. */
function refusal(thrown: unknown): unknown {
  if (thrown instanceof Error || typeof thrown !== 'object' || thrown === null) return thrown;
  const { status_code: status, body } = thrown as { status_code?: number; body?: string };
  const code = codes[status ?? 500] ?? 'internal_error';
  return new WaybillError(code, (body ?? 'refused').trim().replace(/\.$/, ''), {
    hint: 'docs/http-api.md tells what is spoken of the tus protocol, and HEAD where an upload stands',
  });
}

// CORS is the same for all routes, and there is no body to describe.
const notOurs = /^(access-control-.*|content-type|content-length)$/;

/** Sends what the library answers, which has no body. */
export function sendTus(res: Response, { status, headers }: Awaited<ReturnType<typeof speakTus>>): void {
  res.status(status);
  for (const [name, value] of headers) if (!notOurs.test(name)) res.setHeader(name, value);
  // A body of no bytes, where the status has not said so.
  if (status !== 204) res.setHeader('Content-Length', 0);
  res.end();
}

/** Puts on an answer what came of the upload. */
export function tellOutcome(res: Response, basePath: string, { runId, replayed }: PartialOutcome): void {
  if (replayed) res.setHeader('Idempotency-Replayed', 'true');
  res.location(`${basePath}runs/${encodeURIComponent(runId)}`);
}

/**
 * The partial uploads of the daemon as `@tus/server` sees them, for one request. Not its own file store,
 * which tells a full disk from nothing, and acknowledges the last byte before there is a run.
 *
 * @param wanted What the request wants to create; undefined for every other request.
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
    // The library goes on with its own value: it is to have the name under which the upload is found.
    return Object.assign(upload, seen(created));
  }

  override async getUpload(id: string): Promise<Upload> {
    return seen(this.#find(id));
  }

  override async write(stream: Readable, id: string, offset: number): Promise<number> {
    if (this.#find(id).outcome === null) await this.#uploads.write(id, offset, stream);
    // Nothing can be added: that it begins at the end, the library has seen.
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
    // What it expires from.
    creation_date: touchedAt.toISOString(),
  });
}
