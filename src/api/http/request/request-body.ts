import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { onAbort } from '../../../core/lib/on-abort.ts';
import { continueIfExpected, onClosed } from './client-connection.ts';
import { requestContext, requireAuthorized, watchAuthority } from './request-context.ts';
import { callerOf, createShares, type Shares } from './shares.ts';

/*
 * Reads all request bodies, with the same limits for each. A body may stall for up to `idle_timeout` and has
 * to be complete within a total time. Reading also stops when the daemon shuts down, or when the request's
 * token expires or is revoked. No other module reads request bodies.
 */

/** The dependencies for reading a body: its limits, the clock, and a signal to stop. */
export interface BodyPorts {
  http: { idleTimeoutMs: number; uploadTimeoutMs: number };
  clock: Clock;
  /** Aborted when the daemon can no longer wait for bodies that are still being received. */
  stopping: AbortSignal;
}

interface ReceivedBody {
  /** The body. It can only be iterated once. Stopping early leaves the connection open for the response. */
  chunks: AsyncIterable<Uint8Array>;
  /** Aborted when the body takes too long, the daemon stops, or the request loses its authorization. */
  signal: AbortSignal;
}

/**
 * Passes the body to `read`, then checks that the request is still authorized. Throws the same errors as
 * `read`. If the body ended early, throws one of these instead:
 *
 * - `upload_timeout` if nothing arrived for `idle_timeout`, or the body took longer than `maxMs`. Time that
 *   `read` itself spends does not count as idle.
 * - `aborted` if the client disconnected.
 * - the reason of `stopping`.
 * - the authorization error if the request is no longer authorized.
 */
export async function withBody<T>(
  req: IncomingMessage,
  { http, clock, stopping }: BodyPorts,
  read: (body: ReceivedBody) => Promise<T>,
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
    // If the client stalled, report that instead of an error about the incomplete body.
    throw body.failure() ?? (signal.aborted ? signal.reason : error);
  } finally {
    timer.cancel();
    watch.cancel();
    release();
  }
}

/**
 * Wraps the stream, because a plain `for await` over the request destroys the connection when it throws, and
 * then no response can be sent.
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
            new WaybillError('aborted', 'the client closed the connection before the body was complete'),
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
  return new WaybillError('upload_timeout', `no byte of the body arrived for ${idleTimeoutMs} ms`, {
    hint: 'send it again',
  });
}

function tooSlow(maxMs: number): WaybillError {
  return new WaybillError('upload_timeout', `the body was not complete after ${maxMs} ms`, {
    hint: 'use a faster connection; only the body of an upload may take server.http.upload_timeout',
  });
}

export interface MemoryBodyPorts extends BodyPorts {
  bodyMemory: BodyMemory;
}

/**
 * Limits how many bytes of request bodies are in memory at the same time. Bodies with and without a token
 * have separate limits, and no single token or client can use up either of them. Small bodies, such as login
 * forms, are never rejected, because `max_connections` already limits their memory.
 */
interface BodyMemory {
  /**
   * Counts `bytes` until the response is closed. `maxBytes` is the longest body that the route accepts.
   * Throws `server_busy` if that would exceed the limit for this caller, or for all callers together.
   */
  hold(req: IncomingMessage, res: ServerResponse, bytes: number, maxBytes: number): void;
  /** Returns the number of bytes that are in memory now. */
  held(): number;
}

/** The size limit, in bytes, for bodies such as a login, a reload, or the reason for a pause. */
export const smallBodyBytes = 16 * 1024;

const mebibyte = 1024 * 1024;
const minAnonymousBytes = 16 * mebibyte;
/**
 * The longest body of each kind: a manifest, and a form with two documents. A caller may always use this
 * much, so that such a body fits if no others are in memory.
 */
const maxBodyBytes = { withToken: 16 * mebibyte, anonymous: 9 * mebibyte };
const withTokenMs = 60_000;
const anonymousMs = 30_000;

/**
 * @param limit The limit in bytes for bodies with a token. Bodies without a token get a quarter of it, but at
 *   least 16 MiB.
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
      if (before !== undefined) return;
      onClosed(res, () => {
        taken.give(owner, holders.get(res) ?? 0);
        holders.delete(res);
      });
    },
    held: () => Object.values(pools).reduce((sum, one) => sum + one.taken(), 0),
  };
}

/**
 * Passes the body's chunks to `read`, which may keep all of them in memory. Chunks are counted before they
 * are passed on. Sends 100 Continue if the client expects it. The body has to arrive within 60 s, or 30 s
 * without a token, or within `upload_timeout` if that is shorter. Throws the same errors as `withBody` and
 * `BodyMemory.hold`.
 */
export function withBodyInMemory<T>(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  { maxBytes, read }: { maxBytes: number; read: (chunks: AsyncIterable<Uint8Array>) => Promise<T> },
): Promise<T> {
  continueIfExpected(req, res);
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
 * Reads the whole body into memory. Throws `tooLong()` if it is longer than `maxBytes`, before reading
 * anything if the Content-Length already says so.
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
  return new WaybillError('server_busy', `the request bodies ${owners} use all of their memory limit`, {
    hint: 'try again shortly',
  });
}
