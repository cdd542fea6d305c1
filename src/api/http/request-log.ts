import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Request, RequestHandler } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import type { Log, LogControl, RequestLogging } from '../../core/lib/log.ts';
import { type RequestContext, requestContext } from './request/request-context.ts';

export interface RequestLogPorts {
  log: Log;
  clock: Clock;
  logging: Pick<LogControl, 'requests'>;
}

/** Gives each request its id, sets the common headers, and logs the request when its response closes. */
export function requestLog(ports: RequestLogPorts): RequestHandler {
  return (req, res, next) => {
    const client = clientOf(req);
    requestContext(req).client = client;
    logRequest(ports, { req, url: req.originalUrl, client }, res);
    setCommonHeaders(req, res);
    next();
  };
}

/** Sets the headers of every response. A handler may replace each of them. */
export function setCommonHeaders(req: IncomingMessage, res: ServerResponse): void {
  res.setHeader('X-Request-Id', requestContext(req).id);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  // Pages of other origins read responses through CORS only, and cannot embed them.
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}

/** Facts about a logged request in addition to its context. */
export interface LoggedRequest {
  req: IncomingMessage;
  /** The requested URL, before any router has changed it. */
  url: string;
  /** The address of the client; null if unknown. */
  client: string | null;
}

/** Logs one request when its response closes, if `logging.requests` covers it. */
export function logRequest(
  { log, clock, logging }: RequestLogPorts,
  { req, url, client }: LoggedRequest,
  res: ServerResponse,
): void {
  const context = requestContext(req);
  const started = clock.monotonic();
  res.on('close', () => {
    const status = res.headersSent ? res.statusCode : null;
    const isDefect = context.failure !== undefined && res.headersSent;
    const isWhole = res.writableFinished;
    const level = requestLevel({ status, isWhole, isDefect, isProbe: context.isProbe }, logging.requests);
    if (level === null) return;
    const line = {
      request_id: context.id,
      method: req.method,
      route: context.route ?? null,
      path: pathOf(url),
      client,
      status,
      bytes_received: receivedBytes(req),
      bytes_sent: context.sent ?? sentBytes(req, res),
      ms: Math.round(clock.monotonic() - started),
      ...sinceAccept(context, clock),
      ...context.fields,
    };
    if (isDefect) log.error({ ...line, err: context.failure }, 'request failed');
    else log[level](line, isWhole ? 'request' : 'request left by the client');
  });
}

/**
 * The level of a request's log line; null: no line. Server faults are always logged. A successful probe has
 * level debug.
 *
 * @param done `status` is null if the client disconnected before a response. `isWhole` is false if it
 * disconnected before the end.
 */
export function requestLevel(
  done: { status: number | null; isWhole: boolean; isDefect: boolean; isProbe?: boolean | undefined },
  requests: RequestLogging,
): 'debug' | 'info' | 'error' | null {
  if (done.isDefect) return 'error';
  if (requests === 'none') return null;
  if (done.status === null || done.status >= 400 || !done.isWhole) return 'info';
  if (requests === 'errors') return null;
  return done.isProbe === true ? 'debug' : 'info';
}

/**
 * Call this when the request begins: a closed connection has no address, and every client that disconnected
 * would lack one. A proxy may forward any text as an address, so other text is ignored.
 */
export function clientOf({ ip, socket }: Pick<Request, 'ip' | 'socket'>): string | null {
  return ip !== undefined && isIP(ip) !== 0 ? ip : (socket.remoteAddress ?? null);
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/** Milliseconds from the accept to the first request, including the time that the client took to send it. */
function sinceAccept({ acceptedAt }: RequestContext, clock: Clock): { ms_since_accept?: number } {
  return acceptedAt === undefined ? {} : { ms_since_accept: Math.round(clock.monotonic() - acceptedAt) };
}

/** Size of the request body in bytes, as far as it was read. */
function receivedBytes(req: IncomingMessage): number {
  const { received } = requestContext(req);
  if (received !== undefined) return received;
  return req.complete ? Number(req.headers['content-length'] ?? 0) : 0;
}

/** Size of the response body in bytes. Every response sets Content-Length. */
function sentBytes(req: IncomingMessage, res: ServerResponse): number {
  const hasBody = res.headersSent && req.method !== 'HEAD' && res.statusCode !== 304;
  return hasBody ? Number(res.getHeader('content-length') ?? 0) : 0;
}
