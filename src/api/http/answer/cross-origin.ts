import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';

/** `server.http.cors`, resolved. */
export interface CrossOriginSettings {
  /** Origins in the form that browsers send: `https://app.example.org`. `*` matches any. */
  origins: readonly string[];
}

/** Adds the CORS headers to a response, or answers the preflight request. */
export type CrossOrigin = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

// Request headers that the API reads, beyond those that CORS always allows.
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
// Response headers that the API sends, beyond those that CORS always exposes.
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
/** Seconds for which a browser may cache the preflight response. */
const maxAge = 600;

/**
 * CORS for the whole API; null: none. Never sends `Access-Control-Allow-Credentials`: callers authenticate
 * with the token in `Authorization`, never with credentials that a browser adds.
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

/** An OPTIONS request without these headers goes to the router like any other method. */
function isPreflight({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** The CORS headers of a response, without `Vary`: alternating names and values. */
export function crossOriginHeaders(res: ServerResponse): string[] {
  return res
    .getHeaderNames()
    .filter((name) => name.startsWith('access-control-'))
    .flatMap((name) => [name, String(res.getHeader(name))]);
}
