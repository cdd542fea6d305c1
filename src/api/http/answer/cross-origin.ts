import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';

/** The settings under `server.http.cors`, with defaults filled in. */
export interface CrossOriginSettings {
  /** Origins as browsers send them, such as `https://app.example.org`. `*` matches any origin. */
  origins: readonly string[];
}

/** Adds the CORS headers to a response or answers the preflight request. */
export type CrossOrigin = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

// Request headers to allow in addition to the ones that CORS always allows.
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
// Response headers to expose in addition to the ones that CORS always exposes.
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
/** How long a browser may cache a preflight response, in seconds. */
const maxAge = 600;

/**
 * Creates the CORS handler for the whole API, or returns null if CORS is disabled. Never sends
 * `Access-Control-Allow-Credentials`: callers authenticate with a token in `Authorization`, not with
 * credentials that the browser adds on its own.
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

/**
 * An OPTIONS request without these headers is not a preflight. It goes to the router like any other request.
 */
function isPreflight({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** Returns the CORS headers of a response as a flat list of names and values, without `Vary`. */
export function crossOriginHeaders(res: ServerResponse): string[] {
  return res
    .getHeaderNames()
    .filter((name) => name.startsWith('access-control-'))
    .flatMap((name) => [name, String(res.getHeader(name))]);
}
