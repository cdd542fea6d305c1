import type { IncomingHttpHeaders } from 'node:http';
import { Server, type Lock } from '@tus/server';
import { WaybillError } from '../../core/lib/errors.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { TusStore } from './tus-store.ts';

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
  mostBytes: number;
  /** The path of an upload, by its id. */
  pathOf: (id: string) => string;
}

export const tusVersion = '1.0.0';
export const chunkType = 'application/offset+octet-stream';

/** The request's own that the protocol knows, and what a proxy may have added is none of it. */
const known = [
  'content-length',
  'content-type',
  'tus-resumable',
  'upload-concat',
  'upload-defer-length',
  'upload-length',
  'upload-metadata',
  'upload-offset',
];

// Whoever calls holds the upload already.
const noLock: Lock = { lock: async () => undefined, unlock: async () => undefined };

/**
 * What `@tus/server` answers: a status of 2xx and headers. Throws what the store throws, and every refusal of
 * the library as a `WaybillError`.
 */
export async function speakTus(call: TusCall): Promise<{ status: number; headers: Map<string, string> }> {
  const { method, chunks, store, uploadId = '', mostBytes, pathOf } = call;
  let failure: unknown;
  const server = new Server({
    path: '/',
    datastore: store,
    locker: { newLock: () => noLock },
    maxSize: mostBytes,
    generateUrl: (_request, { id }) => pathOf(id),
    getFileIdFromRequest: () => uploadId,
    allowedOrigins: [],
    onResponseError: (_request, error) => {
      failure = error;
      return undefined;
    },
  });
  const headers = new Headers();
  for (const name of known) {
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
