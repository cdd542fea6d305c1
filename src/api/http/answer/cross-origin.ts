import type { IncomingMessage, ServerResponse } from 'node:http';
import cors from 'cors';

/** The resolved `server.http.cors`. */
export interface CrossOriginSettings {
  /** Origins as browsers send them, such as `https://app.example.org`. `*` matches any origin. */
  origins: readonly string[];
}

/** Adds the CORS headers to a response or answers the preflight request. */
export type CrossOrigin = (req: IncomingMessage, res: ServerResponse, next: () => void) => void;

// Request headers that the API reads, in addition to those that CORS always allows.
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
// Response headers that the API sends, in addition to those that CORS always exposes.
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
/** The number of seconds for which a browser may cache the preflight response. */
const maxAge = 600;

/**
 * Handles CORS for the whole API; null disables it. Never sends `Access-Control-Allow-Credentials`, because
 * callers authenticate with the token in `Authorization` and never with credentials added by a browser.
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
 * Returns false for an OPTIONS request without these headers, which goes to the router like any other method.
 */
function isPreflight({ headers }: IncomingMessage): boolean {
  return headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}

/** Returns a response's CORS headers without `Vary`, as alternating names and values. */
export function crossOriginHeaders(res: ServerResponse): string[] {
  return res
    .getHeaderNames()
    .filter((name) => name.startsWith('access-control-'))
    .flatMap((name) => [name, String(res.getHeader(name))]);
}
