import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { onAbort } from '../../../core/lib/on-abort.ts';
import { requireAuthorized, watchAuthority } from './authority.ts';
import { requestContext } from './request-context.ts';

/*
 * The one rule for bodies, whatever a route does with them: a body may pause for `idle_timeout`, has to be
 * whole after a total time, and ends when the daemon stops or the token of the request is gone. Nothing
 * else reads a request.
 */

/** What reading a body takes. */
export interface BodyPorts {
  http: { idleTimeoutMs: number; uploadTimeoutMs: number };
  clock: Clock;
  /** Aborts when bodies that are still being received must end. */
  stopping: AbortSignal;
}

export interface RequestBody {
  /** The bytes; can be read once. Stopping early leaves the connection usable for an answer. */
  chunks: AsyncIterable<Uint8Array>;
  /** Aborts when the body has taken too long, when the daemon stops, and when the token is gone. */
  signal: AbortSignal;
}

/**
 * Hands `read` the body. Throws what `read` throws, unless the body ended early: then `upload_timeout` after
 * `idle_timeout` without a byte from the client (time that the reader takes does not count) or if it was not
 * whole after `mostMs`, `aborted` if the client left, the reason of `stopping`, and the refusal if the
 * request is no longer allowed. That is checked again after `read`.
 */
export async function withBody<T>(
  req: IncomingMessage,
  { http, clock, stopping }: BodyPorts,
  read: (body: RequestBody) => Promise<T>,
  mostMs: number = http.uploadTimeoutMs,
): Promise<T> {
  const abort = new AbortController();
  const release = onAbort(stopping, () => abort.abort(stopping.reason));
  const timer = clock.timeout(mostMs, () => abort.abort(tooSlow(mostMs)));
  const watch = watchAuthority(req, clock, (refusal) => abort.abort(refusal));
  const { signal } = abort;
  const idleTimeoutMs = Math.min(http.idleTimeoutMs, mostMs);
  const body = openBody(req, { idleTimeoutMs, signal, clock });
  try {
    const result = await read({ chunks: body.chunks, signal });
    requireAuthorized(req);
    return result;
  } catch (error) {
    // What ends early because the client stalled is not malformed.
    throw body.failure() ?? (signal.aborted ? signal.reason : error);
  } finally {
    timer.cancel();
    watch.cancel();
    release();
  }
}

/** A plain `for await` over the request would destroy the connection on an error, and the answer with it. */
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

function tooSlow(mostMs: number): WaybillError {
  return new WaybillError('upload_timeout', `the body was not whole after ${mostMs} ms`, {
    hint: 'send it over a faster line; that of an upload may take server.http.upload_timeout',
  });
}
