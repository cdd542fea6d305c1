import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../../core/clock.ts';
import { asWaybillError, WaybillError } from '../../../core/errors.ts';
import { requestContext } from './request-context.ts';

export interface RequestBody {
  /** The bytes; can be read once. Stopping early leaves the connection usable for an answer. */
  chunks: AsyncIterable<Uint8Array>;
  /** Why the bytes ended early: a timeout, a client that disconnected, or the daemon stopping. */
  failure(): WaybillError | undefined;
}

/**
 * The body of a request as a stream that fails with `upload_timeout` after `idleTimeoutMs` without a byte
 * from the client (time that the reader takes does not count), with the signal's reason when it aborts, and
 * with `aborted` when the client disconnects. A plain `for await` over the request would destroy the
 * connection on the first error, and the answer with it.
 */
export function requestBody(
  req: IncomingMessage,
  { idleTimeoutMs, signal, clock }: { idleTimeoutMs: number; signal: AbortSignal; clock: Clock },
): RequestBody {
  let failure: WaybillError | undefined;
  const context = requestContext(req);
  const fail = (error: WaybillError): WaybillError => (failure = error);

  async function* read(): AsyncGenerator<Uint8Array> {
    let wake: () => void = () => undefined;
    const onEvent = (): void => wake();
    const events = ['readable', 'end', 'close', 'error'] as const;
    for (const event of events) req.on(event, onEvent);
    signal.addEventListener('abort', onEvent);
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
      signal.removeEventListener('abort', onEvent);
    }
  }

  return { chunks: read(), failure: () => failure };
}

function stalled(idleTimeoutMs: number): WaybillError {
  return new WaybillError('upload_timeout', `no byte of the body came for ${idleTimeoutMs} ms`, {
    hint: 'upload again',
  });
}
