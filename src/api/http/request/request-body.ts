import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { onAbort } from '../../../core/lib/on-abort.ts';
import { requestContext, requireAuthorized, watchAuthority } from './request-context.ts';
import { callerOf, createShares, type Shares } from './shares.ts';

/*
 * Reads every request body under the same limits. A body may pause for `idle_timeout` and must be complete
 * within a total time. Reading also ends when the daemon stops or the request's token expires or is revoked.
 * No other module reads request bodies.
 */

/** The dependencies for reading a body. */
export interface BodyPorts {
  http: { idleTimeoutMs: number; uploadTimeoutMs: number };
  clock: Clock;
  /** Aborts when all bodies that are still being received must end. */
  stopping: AbortSignal;
}

interface RequestBody {
  /** The bytes; can be read only once. After an early stop, the connection can still send a response. */
  chunks: AsyncIterable<Uint8Array>;
  /** Aborts when the body takes too long, the daemon stops, or the request is no longer allowed. */
  signal: AbortSignal;
}

/**
 * Passes the body to `read`, then checks again that the request is still allowed. Throws the same errors as
 * `read`, unless the body ended early. In that case, throws one of these:
 *
 * - `upload_timeout`: no byte arrived for `idle_timeout`, or the body took longer than `maxMs`. The reader's
 *   own time does not count as idle.
 * - `aborted`: the client disconnected.
 * - the reason of `stopping`.
 * - the refusal, if the request is no longer allowed.
 */
export async function withBody<T>(
  req: IncomingMessage,
  { http, clock, stopping }: BodyPorts,
  read: (body: RequestBody) => Promise<T>,
  maxMs: number = http.uploadTimeoutMs,
): Promise<T> {
  const abort = new AbortController();
  const release = onAbort(stopping, () => abort.abort(stopping.reason));
  const timer = clock.timeout(maxMs, () => abort.abort(tooSlow(maxMs)));
  const watch = watchAuthority(req, clock, (refusal) => abort.abort(refusal));
  const { signal } = abort;
  const idleTimeoutMs = Math.min(http.idleTimeoutMs, maxMs);
  const body = openBody(req, { idleTimeoutMs, signal, clock });
  try {
    const result = await read({ chunks: body.chunks, signal });
    requireAuthorized(req);
    return result;
  } catch (error) {
    // A body that ends early because the client stalled is not reported as malformed.
    throw body.failure() ?? (signal.aborted ? signal.reason : error);
  } finally {
    timer.cancel();
    watch.cancel();
    release();
  }
}

/**
 * Wraps the request's chunks, because on an error a plain `for await` over the request would destroy the
 * connection and the response with it.
 */
function openBody(
  req: IncomingMessage,
  { idleTimeoutMs, signal, clock }: { idleTimeoutMs: number; signal: AbortSignal; clock: Clock },
): { chunks: AsyncIterable<Uint8Array>; failure: () => WaybillError | undefined } {
  let failure: WaybillError | undefined;
  const context = requestContext(req);
  const fail = (error: WaybillError): WaybillError => (failure = error);

  async function* read(): AsyncGenerator<Uint8Array> {
    let wake: () => void = () => undefined;
    const onEvent = (): void => wake();
    const events = ['readable', 'end', 'close', 'error'] as const;
    for (const event of events) req.on(event, onEvent);
    const release = onAbort(signal, onEvent);
    try {
      for (;;) {
        if (signal.aborted) throw fail(asWaybillError(signal.reason));
        const chunk = req.read() as Buffer | null;
        if (chunk !== null) {
          context.received = (context.received ?? 0) + chunk.length;
          yield chunk;
          continue;
        }
        if (req.readableEnded) return;
        if (req.destroyed)
          throw fail(
            new WaybillError('aborted', 'the client closed the connection before the body was whole'),
          );
        const idle = await new Promise<boolean>((resolve) => {
          const timer = clock.timeout(idleTimeoutMs, () => resolve(true));
          wake = () => {
            timer.cancel();
            resolve(false);
          };
        });
        if (idle) throw fail(stalled(idleTimeoutMs));
      }
    } finally {
      for (const event of events) req.off(event, onEvent);
      release();
    }
  }

  return { chunks: read(), failure: () => failure };
}

function stalled(idleTimeoutMs: number): WaybillError {
  return new WaybillError('upload_timeout', `no byte of the body came for ${idleTimeoutMs} ms`, {
    hint: 'send it again',
  });
}

function tooSlow(maxMs: number): WaybillError {
  return new WaybillError('upload_timeout', `the body was not whole after ${maxMs} ms`, {
    hint: 'use a faster connection; only the body of an upload may take server.http.upload_timeout',
  });
}

/** The dependencies for reading a body into memory. */
export interface MemoryBodyPorts extends BodyPorts {
  bodyMemory: BodyMemory;
}

/**
 * Counts the bytes of all bodies currently in memory. Bodies with and without a token have separate pools,
 * and no single token or client can fill a pool. Forms and small JSON documents are never refused, because
 * `max_connections` bounds their memory.
 */
interface BodyMemory {
  /**
   * Counts `bytes` for a request until its response closes. `maxBytes` is the longest body that the route
   * reads. Throws `server_busy` if the caller, or all callers of its pool together, would exceed a limit.
   */
  hold(req: IncomingMessage, res: ServerResponse, bytes: number, maxBytes: number): void;
  /** The number of bytes held. */
  held(): number;
}

/**
 * The maximum size, in bytes, of a body that counts as small, such as a login, a reload, or the reason for a
 * pause.
 */
export const smallBodyBytes = 16 * 1024;

const mebibyte = 1024 * 1024;
const minAnonymousBytes = 16 * mebibyte;
/** An empty pool always has room for the longest body, which is a manifest or a form with two documents. */
const maxBodyBytes = { withToken: 16 * mebibyte, anonymous: 9 * mebibyte };
const withTokenMs = 60_000;
const anonymousMs = 30_000;

/**
 * @param limit Maximum bytes for bodies with a token. Bodies without a token get a quarter of it, but at
 * least 16 MiB.
 */
export function createBodyMemory(limit: number): BodyMemory {
  const pool = (total: number, longest: number): Shares =>
    createShares({ total, perOwner: Math.max(total / 2, longest) });
  const pools = {
    small: createShares({ total: Infinity, perOwner: Infinity }),
    withToken: pool(limit, maxBodyBytes.withToken),
    anonymous: pool(Math.max(limit / 4, minAnonymousBytes), maxBodyBytes.anonymous),
  };
  const holders = new WeakMap<ServerResponse, number>();
  return {
    hold: (req, res, bytes, maxBytes) => {
      const { hasToken, owner } = callerOf(req);
      const large = hasToken ? pools.withToken : pools.anonymous;
      const taken = maxBytes <= smallBodyBytes ? pools.small : large;
      const refusedBy = taken.take(owner, bytes);
      if (refusedBy !== null) throw busy(refusedBy);
      const before = holders.get(res);
      holders.set(res, (before ?? 0) + bytes);
      if (before === undefined) res.once('close', () => taken.give(owner, holders.get(res) ?? 0));
    },
    held: () => Object.values(pools).reduce((sum, one) => sum + one.taken(), 0),
  };
}

/**
 * Passes `read` the chunks of a body that will be held entirely in memory. Each chunk is counted first. Sends
 * 100 Continue if the client expects it. Throws the same errors as `withBody` and `BodyMemory.hold`. The body
 * must arrive within 60 s, or 30 s without a token, or within `upload_timeout` if that is shorter.
 */
export function withBodyInMemory<T>(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  { maxBytes, read }: { maxBytes: number; read: (chunks: AsyncIterable<Uint8Array>) => Promise<T> },
): Promise<T> {
  if (req.headers.expect !== undefined) res.writeContinue();
  const counted = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      ports.bodyMemory.hold(req, res, chunk.length, maxBytes);
      yield chunk;
    }
  };
  const maxMs = callerOf(req).hasToken ? withTokenMs : anonymousMs;
  const time = Math.min(ports.http.uploadTimeoutMs, maxMs);
  return withBody(req, ports, ({ chunks }) => read(counted(chunks)), time);
}

/**
 * Returns the whole body. Throws `tooLong()` above `maxBytes`; if Content-Length already exceeds it, throws
 * before reading.
 */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  { maxBytes, tooLong }: { maxBytes: number; tooLong: () => WaybillError },
): Promise<Buffer> {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLong();
  const read = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> => {
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of chunks) {
      length += chunk.length;
      if (length > maxBytes) throw tooLong();
      parts.push(chunk);
    }
    return Buffer.concat(parts);
  };
  return withBodyInMemory(req, res, ports, { maxBytes, read });
}

function busy(bound: 'owner' | 'total'): WaybillError {
  const owners = bound === 'owner' ? 'of this client' : 'of all clients';
  return new WaybillError('server_busy', `the bodies ${owners} take all the memory that they may`, {
    hint: 'try again shortly',
  });
}
