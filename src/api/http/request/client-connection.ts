import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';

// Fast clients can write a whole body before reading the response. The limits bound the cost of stalled
// clients.
const timeoutMs = 5_000;
const maxBytes = 64 * 1024 * 1024;

/** Reports whether the client has announced a body that has not fully arrived. */
export function hasPendingBody(req: IncomingMessage): boolean {
  if (req.complete) return false;
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * Writes the whole response immediately, then discards further input from the client. Ends the response when
 * the client stops or a limit is reached. Ending it closes the connection; with unread bytes, that would send
 * a reset, which can overtake the response.
 */
export async function endAfterDrain(
  req: IncomingMessage,
  res: ServerResponse,
  body: Buffer,
  clock: Clock,
): Promise<void> {
  res.setHeader('Connection', 'close');
  res.write(body);
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const discard = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > maxBytes) done();
    };
    const done = (): void => {
      timer.cancel();
      req.off('data', discard).off('end', done).off('close', done);
      req.socket.off('end', done);
      resolve();
    };
    const timer = clock.timeout(timeoutMs, done);
    req.on('data', discard).on('end', done).on('close', done);
    // If the body is not valid HTTP, the request itself never ends.
    req.socket.once('end', done);
    if (req.destroyed) done();
    else req.resume();
  });
  res.end();
}

/**
 * Closes the connection if the rest of the body does not arrive soon after the response. Node.js would wait
 * as long as a byte arrives now and then.
 */
export function dropUnreadBody(req: IncomingMessage, res: ServerResponse, clock: Clock): void {
  if (!hasPendingBody(req)) return;
  res.once('finish', () => {
    if (req.complete) return;
    const timer = clock.timeout(timeoutMs, () => req.socket.destroy(), { unref: true });
    req.once('close', () => timer.cancel());
  });
}

/**
 * Runs work that only this client is waiting for. The signal passed to `work` aborts when the client
 * disconnects or the daemon stops; `aborted` or the reason of `stopping` is then thrown. Otherwise throws the
 * same errors as `work`.
 */
export async function untilLeft<T>(
  res: ServerResponse,
  stopping: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new WaybillError('aborted', 'the client left before it was answered'));
  res.once('close', leave);
  if (res.destroyed) leave();
  const signal = AbortSignal.any([gone.signal, stopping]);
  try {
    const result = await work(signal);
    signal.throwIfAborted();
    return result;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    res.off('close', leave);
  }
}
