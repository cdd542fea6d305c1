import type { Response } from 'express';
import type { PartialOutcome } from '../../workers/staging/partial-upload.ts';
import type { speakTus } from './speak-tus.ts';

// CORS is the same for all routes, and there is no body to describe.
const notOurs = /^(access-control-.*|content-type|content-length)$/;

/** Sends what the library answers, which has no body. */
export function sendTus(res: Response, { status, headers }: Awaited<ReturnType<typeof speakTus>>): void {
  res.status(status);
  for (const [name, value] of headers) if (!notOurs.test(name)) res.setHeader(name, value);
  // A body of no bytes, where the status has not said so.
  if (status !== 204) res.setHeader('Content-Length', 0);
  res.end();
}

/** Puts on an answer what came of the upload. */
export function tellOutcome(res: Response, basePath: string, { runId, replayed }: PartialOutcome): void {
  if (replayed) res.setHeader('Idempotency-Replayed', 'true');
  res.location(`${basePath}runs/${encodeURIComponent(runId)}`);
}
