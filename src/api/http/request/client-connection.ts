import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';

// Enough for a client on a fast line that writes everything before it reads; bounds what a stalled one costs.
const timeoutMs = 5_000;
const maxBytes = 64 * 1024 * 1024;

/** Whether the client has announced a body that has not arrived completely. */
export function hasPendingBody(req: IncomingMessage): boolean {
  if (req.complete) return false;
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * Writes the whole answer at once, then discards what the client still sends, and ends the response when the
 * client stops or a time or size limit is reached. Ending the response closes the connection; with unread
 * bytes that would send a reset, which can overtake the answer.
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
    // Where the body is no HTTP, the request itself never ends.
    req.socket.once('end', done);
    if (req.destroyed) done();
    else req.resume();
  });
  res.end();
}

/**
 * Closes the connection if the client has not sent the rest of its body soon after the answer: Node.js would
 * wait for it as long as a byte comes now and then.
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
 * Carries out what only this client waits for: `work` is told to stop when it leaves, or when the daemon
 * stops. Throws `aborted` or the reason of `stopping` then, and what `work` throws.
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
