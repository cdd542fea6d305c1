import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';

// Long enough for fast clients, which often send the whole body before they read the response. The limits
// keep stalled clients from holding on to connections.
const timeoutMs = 5_000;
const maxBytes = 64 * 1024 * 1024;

/** Reports whether part of the announced body is still missing. */
export function hasPendingBody(req: IncomingMessage): boolean {
  if (req.complete) return false;
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Sends 100 Continue if the client waits for it. A client of HTTP/1.0 would take it for the response. */
export function continueIfExpected({ headers, httpVersion }: IncomingMessage, res: ServerResponse): void {
  if (headers.expect !== undefined && httpVersion !== '1.0') res.writeContinue();
}

/**
 * Writes the whole response right away, but keeps the connection open and discards further input until the
 * client stops or a limit is reached. Closing it with unread data would send a reset, which could reach the
 * client before the response does.
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
    // If the body is invalid HTTP, the request never emits `end`.
    req.socket.once('end', done);
    if (req.destroyed) done();
    else req.resume();
  });
  res.end();
}

/**
 * Closes the connection if the rest of the body does not arrive soon after the response. Otherwise, Node.js
 * would wait for as long as the client sends a byte now and then.
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
 * Calls `callback` once the response is closed, or right away if it already is: while a handler waited, the
 * client may have disconnected.
 */
export function onClosed(res: ServerResponse, callback: () => void): void {
  if (res.closed) callback();
  else res.once('close', callback);
}

/**
 * Runs `work`, whose result only this client needs. The signal is aborted when the client disconnects, which
 * throws `aborted`, or when the daemon stops, which throws the reason of `stopping`. If `work` succeeds all
 * the same, its result is returned: if a release became current, the audit trail has to say so.
 * Otherwise throws the same errors as `work`.
 */
export async function untilLeft<T>(
  res: ServerResponse,
  stopping: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const leave = (): void =>
    gone.abort(new WaybillError('aborted', 'the client disconnected before the response'));
  onClosed(res, leave);
  const signal = AbortSignal.any([gone.signal, stopping]);
  try {
    return await work(signal);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    res.off('close', leave);
  }
}
