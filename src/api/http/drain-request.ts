import type { IncomingMessage, ServerResponse } from 'node:http';

// Enough for a client that writes everything before it reads, on a good line; no more than an idle one may
// cost us.
const longestMs = 5_000;
const mostBytes = 64 * 1024 * 1024;

/** Whether the client has announced a body that has not arrived whole. */
export function hasPendingBody(req: IncomingMessage): boolean {
  if (req.complete) return false;
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * Writes the whole answer now, but ends the response only when the client has stopped sending, or after a
 * bounded time and number of bytes. Ending it closes the connection; that on unread bytes would send a reset,
 * which may overtake the answer.
 */
export async function lingeringEnd(req: IncomingMessage, res: ServerResponse, body: Buffer): Promise<void> {
  res.setHeader('Connection', 'close');
  res.write(body);
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const count = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > mostBytes) done();
    };
    const done = (): void => {
      clearTimeout(timer);
      req.off('data', count).off('end', done).off('close', done);
      resolve();
    };
    const timer = setTimeout(done, longestMs);
    req.on('data', count).on('end', done).on('close', done);
    if (req.destroyed) done();
    else req.resume();
  });
  res.end();
}
