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

/** Gives each request an id, sets the common headers, and logs the request when its response is closed. */
export function requestLog(ports: RequestLogPorts): RequestHandler {
  return (req, res, next) => {
    const client = clientOf(req);
    requestContext(req).client = client;
    logRequest(ports, { req, url: req.originalUrl, client }, res);
    setCommonHeaders(req, res);
    next();
  };
}

/** Sets the headers that all responses have. Handlers can override them. */
export function setCommonHeaders(req: IncomingMessage, res: ServerResponse): void {
  res.setHeader('X-Request-Id', requestContext(req).id);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  // Other sites can only read responses through CORS, and cannot embed them.
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}

/** Information to log about a request, in addition to its context. */
export interface LoggedRequest {
  req: IncomingMessage;
  /** The original URL. Routers modify `req.url`. */
  url: string;
  /** The client's address; null if unknown. */
  client: string | null;
}

/** Logs a request when its response is closed, if `logging.requests` includes it. */
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
    else log[level](line, isWhole ? 'request' : 'request aborted by the client');
  });
}

/**
 * Returns the log level for a request, or null to leave it out. Server errors are always logged. Successful
 * health checks are logged at debug level.
 *
 * @param done `status` is null if the client disconnected before the response began. `isWhole` is false if it
 *   disconnected before the response ended.
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
 * Returns the client's address. Call this at the start of the request, because the address is lost once the
 * client disconnects. Ignores a forwarded address if it is not a valid IP address, since proxies may pass on
 * any text. A port after it is removed.
 */
export function clientOf({ ip = '', socket }: Pick<Request, 'ip' | 'socket'>): string | null {
  const [, v4, v6] = withPort.exec(ip) ?? [];
  const address = v4 ?? v6 ?? ip;
  return isIP(address) === 0 ? (socket.remoteAddress ?? null) : address;
}

/** Some proxies, such as Azure Application Gateway, add the port of the client to its address. */
const withPort = /^(?:([\d.]+):\d+|\[([\da-f:.]+)\](?::\d+)?)$/i;

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/**
 * Returns the time between accepting the connection and its first request, in milliseconds. This includes the
 * time that the client took to send the request.
 */
function sinceAccept({ acceptedAt }: RequestContext, clock: Clock): { ms_since_accept?: number } {
  return acceptedAt === undefined ? {} : { ms_since_accept: Math.round(clock.monotonic() - acceptedAt) };
}

/** Returns how many bytes of the request body have been read. */
function receivedBytes(req: IncomingMessage): number {
  const { received } = requestContext(req);
  if (received !== undefined) return received;
  return req.complete ? Number(req.headers['content-length'] ?? 0) : 0;
}

/** Returns the size of the response body in bytes. All responses have a Content-Length. */
function sentBytes(req: IncomingMessage, res: ServerResponse): number {
  const hasBody = res.headersSent && req.method !== 'HEAD' && res.statusCode !== 304;
  return hasBody ? Number(res.getHeader('content-length') ?? 0) : 0;
}
