import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';

/** `server.http.cors`, resolved. */
export interface CrossOriginSettings {
  /** Origins as browsers send them: `https://app.example.org`; `*` stands for any. */
  origins: readonly string[];
}

/** Puts the headers on an answer that a page of another origin needs, or answers its preflight. */
export type CrossOrigin = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

// What the API reads beyond the headers that every page may send.
const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Modified-Since',
  'Last-Event-ID',
  'If-None-Match',
  'Traceparent',
  'Tracestate',
  'Tus-Resumable',
  'Upload-Defer-Length',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'Waybill-Partial',
];
// What the API answers with beyond the headers that every page may read.
const exposedHeaders = [
  'Accept-Patch',
  'Accept-Post',
  'Allow',
  'ETag',
  'Idempotency-Replayed',
  'Link',
  'Location',
  'Retry-After',
  'Tus-Extension',
  'Tus-Max-Size',
  'Tus-Resumable',
  'Tus-Version',
  'Upload-Defer-Length',
  'Upload-Expires',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'Warning',
  'WWW-Authenticate',
  'X-Request-Id',
];
/** Seconds for which a browser need not ask again what it may send. */
const maxAge = 600;

/**
 * CORS for the whole API; null: none. `Access-Control-Allow-Credentials` is never sent: callers are known by
 * the token that they put into `Authorization`, never by what a browser adds on its own.
 */
export function crossOrigin(settings: CrossOriginSettings | null): CrossOrigin | null {
  if (settings === null) return null;
  const origin = settings.origins.includes('*') ? '*' : [...settings.origins];
  const handle = cors({
    origin,
    methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
    allowedHeaders,
    exposedHeaders,
    maxAge,
  });
  return (req, res, next) => {
    if (req.method === 'OPTIONS' && !isPreflight(req)) next();
    else handle(req, res, next);
  };
}

/** Any other OPTIONS is a method like PATCH, which few routes take. */
function isPreflight({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** The headers that CORS put on an answer, but for `Vary`; names and values in turn. */
export function crossOriginHeaders(res: ServerResponse): string[] {
  return res
    .getHeaderNames()
    .filter((name) => name.startsWith('access-control-'))
    .flatMap((name) => [name, String(res.getHeader(name))]);
}
