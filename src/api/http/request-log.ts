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

/** Gives each request its id and the headers of every answer, and logs it once its response has closed. */
export function requestLog(ports: RequestLogPorts): RequestHandler {
  return (req, res, next) => {
    const client = clientOf(req);
    requestContext(req).client = client;
    logRequest(ports, { req, url: req.originalUrl, client }, res);
    setCommonHeaders(req, res);
    next();
  };
}

/** The headers of every answer, each of which an answer may replace. */
export function setCommonHeaders(req: IncomingMessage, res: ServerResponse): void {
  res.setHeader('X-Request-Id', requestContext(req).id);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('X-Content-Type-Options', 'nosniff');
  // Pages of other origins read answers by CORS alone, and embed none.
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
}

/** What is logged of a request beside its context. */
export interface LoggedRequest {
  req: IncomingMessage;
  /** As it was asked for, whatever router it went through. */
  url: string;
  /** The address of the client; null: not known. */
  client: string | null;
}

/** Logs one request, once its response has closed, if requests like it are logged. */
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
 * The level of a request's line; null: it has none. What fails by a defect of ours is logged in any case, and
 * a probe that succeeds only for whoever wants to see everything. Pure.
 *
 * @param done `status` is null and `isWhole` false where the client did not wait for the answer.
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
 * Looked up when the request begins: the address of a connection is gone with it, as in every line of a
 * client that left. What a proxy passes on of a client's own header is only logged if it is an address.
 */
export function clientOf({ ip, socket }: Pick<Request, 'ip' | 'socket'>): string | null {
  return ip !== undefined && isIP(ip) !== 0 ? ip : (socket.remoteAddress ?? null);
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/** Of the first request of a connection: time from its accept, the client's own to send a request in it. */
function sinceAccept({ acceptedAt }: RequestContext, clock: Clock): { ms_since_accept?: number } {
  return acceptedAt === undefined ? {} : { ms_since_accept: Math.round(clock.monotonic() - acceptedAt) };
}

/** Size of the request body, as far as it was read. */
function receivedBytes(req: IncomingMessage): number {
  const { received } = requestContext(req);
  if (received !== undefined) return received;
  return req.complete ? Number(req.headers['content-length'] ?? 0) : 0;
}

/** Size of the response body; every answer sets its Content-Length. */
function sentBytes(req: IncomingMessage, res: ServerResponse): number {
  const hasBody = res.headersSent && req.method !== 'HEAD' && res.statusCode !== 304;
  return hasBody ? Number(res.getHeader('content-length') ?? 0) : 0;
}
