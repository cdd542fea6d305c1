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

/** Assigns each request its id, sets the common headers, and logs the request when its response closes. */
export function requestLog(ports: RequestLogPorts): RequestHandler {
  return (req, res, next) => {
    const client = clientOf(req);
    requestContext(req).client = client;
    logRequest(ports, { req, url: req.originalUrl, client }, res);
    setCommonHeaders(req, res);
    next();
  };
}

/** Sets every response's headers. A handler may replace any of them. */
export function setCommonHeaders(req: IncomingMessage, res: ServerResponse): void {
  res.setHeader('X-Request-Id', requestContext(req).id);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  // Pages of other origins can read responses only through CORS and cannot embed them.
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}

/** Facts about a logged request that its context lacks. */
export interface LoggedRequest {
  req: IncomingMessage;
  /** The requested URL, before any router changes it. */
  url: string;
  /** The client's address; null if unknown. */
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
 * Returns the level of a request's log line; null means that it is not logged. Server faults are always
 * logged. A successful probe has level debug.
 *
 * @param done `status` is null if the client disconnected before the response. `isWhole` is false if it
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
 * Call this when the request begins: a closed connection has no address, so clients that disconnect would
 * have none. A proxy may forward arbitrary text as an address; anything but an address is ignored.
 */
export function clientOf({ ip, socket }: Pick<Request, 'ip' | 'socket'>): string | null {
  return ip !== undefined && isIP(ip) !== 0 ? ip : (socket.remoteAddress ?? null);
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/**
 * Returns the milliseconds from accepting the connection to its first request, including the time that the
 * client took to send it.
 */
function sinceAccept({ acceptedAt }: RequestContext, clock: Clock): { ms_since_accept?: number } {
  return acceptedAt === undefined ? {} : { ms_since_accept: Math.round(clock.monotonic() - acceptedAt) };
}

/** Returns the number of bytes of the request body that were read. */
function receivedBytes(req: IncomingMessage): number {
  const { received } = requestContext(req);
  if (received !== undefined) return received;
  return req.complete ? Number(req.headers['content-length'] ?? 0) : 0;
}

/** Returns the response body's size in bytes. Every response sets Content-Length. */
function sentBytes(req: IncomingMessage, res: ServerResponse): number {
  const hasBody = res.headersSent && req.method !== 'HEAD' && res.statusCode !== 304;
  return hasBody ? Number(res.getHeader('content-length') ?? 0) : 0;
}
