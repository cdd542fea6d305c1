import { createHash } from 'node:crypto';
import type { Response } from 'express';

/** Ends the answer with these bytes and an `ETag` of them, or with 304 where the client has them already. */
export function sendWithEtag(res: Response, type: string, text: string): void {
  const etag = createHash('sha256').update(text).digest('base64url').slice(0, 27);
  res.set({ 'Content-Type': type, ETag: `"${etag}"` });
  res.send(text);
}
