import { randomUUID } from 'node:crypto';
import http, {
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { Socket } from 'node:net';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log, LogControl } from '../../core/lib/log.ts';
import { problemOf, sendProblem } from './answer/problem.ts';
import { malformed, unsupportedCoding } from './request/request-head.ts';

/*
 * Handles input that Node.js itself rejects, such as invalid HTTP, or a head that is too long or arrives too
 * slowly. By default, Node.js does not emit a request for it and only sends a status line, which can corrupt
 * the previous response.
 */

export interface RefusalPorts {
  clock: Clock;
  log: Log;
  logging: Pick<LogControl, 'requests'>;
  /** Counts the rejected requests. null turns counting off. */
  metrics: RequestCounter | null;
}

export interface RequestCounter {
  request(done: { method: string; route: string | null; status: number | null; seconds: number }): void;
}

interface HttpExchange {
  req: IncomingMessage;
  res: ServerResponse;
}

// Keep in sync with `client-connection.ts`.
const lingerMs = 5_000;
const lingerBytes = 64 * 1024 * 1024;

/**
 * Responds with a problem document to input that the server itself rejects, and logs and counts it like any
 * other request. Returns a wrapped `listener` to pass to the server. If a response is in progress, it is
 * finished first. The connection is closed afterwards.
 */
export function answerRefusedBytes(
  server: Server,
  listener: RequestListener,
  ports: RefusalPorts,
): RequestListener {
  const latest = new WeakMap<Socket, HttpExchange>();
  const refusedAt = new WeakMap<Socket, number>();
  server.on('clientError', (thrown: ParserError, socket) => {
    if (!(socket instanceof Socket)) {
      socket.destroy();
      return;
    }
    const since = refusedAt.get(socket);
    // Once it has failed, the parser also reports an error for all further input.
    if (since !== undefined) {
      if (socket.bytesRead - since > lingerBytes) socket.destroy();
      return;
    }
    refusedAt.set(socket, socket.bytesRead);
    const error = errorOf(thrown);
    if (error === null || !socket.writable || socket.bytesRead === 0) socket.destroy();
    else refuse(error, socket, latest.get(socket), ports, thrown.code === endedEarly);
  });
  return (req, res) => {
    latest.set(req.socket, { req, res });
    listener(req, res);
  };
}

function refuse(
  error: WaybillError,
  socket: Socket,
  exchange: HttpExchange | undefined,
  ports: RefusalPorts,
  hasLeft: boolean,
): void {
  if (exchange === undefined || (exchange.res.writableFinished && exchange.req.complete))
    answerOnSocket(error, socket, ports);
  else if (exchange.req.complete)
    // Extra data after a complete request, such as a body longer than announced, does not affect the response
    // to it.
    exchange.res.once('close', () => answerOnSocket(error, socket, ports));
  else if (hasLeft || exchange.res.writableFinished) socket.destroy();
  else {
    const { req, res } = exchange;
    if (!res.headersSent) void sendProblem(req, res, error, ports);
    // Something is still reading the body, so end the request too.
    res.once('close', () => req.destroy());
    // The response has been sent in full. Keep reading for a while, so that the client gets it.
    socket.end();
  }
}

function answerOnSocket(error: WaybillError, socket: Socket, ports: RefusalPorts): void {
  const { clock, log, logging, metrics } = ports;
  if (!socket.writable) return;
  const id = randomUUID();
  const problem = problemOf(error, id);
  const body = JSON.stringify(problem);
  const head = [
    `HTTP/1.1 ${problem.status} ${problem.title}`,
    `Date: ${clock.now().toUTCString()}`,
    `X-Request-Id: ${id}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    'Cross-Origin-Resource-Policy: same-origin',
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  const client = socket.remoteAddress ?? null;
  // Do not destroy the socket yet. With unread data, that sends a reset, which can reach the client before
  // the response does.
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  const timer = clock.timeout(lingerMs, () => socket.destroy(), { unref: true });
  socket.once('end', () => socket.destroySoon()).once('close', () => timer.cancel());
  const line = {
    request_id: id,
    method: null,
    route: null,
    path: null,
    client,
    status: problem.status,
    bytes_received: 0,
    bytes_sent: Buffer.byteLength(body),
    ms: 0,
    code: error.code,
    reason: error.message,
  };
  if (logging.requests !== 'none') log.info(line, 'request');
  metrics?.request({ method: '', route: null, status: problem.status, seconds: 0 });
}

type ParserError = NodeJS.ErrnoException & { reason?: string };

const endedEarly = 'HPE_INVALID_EOF_STATE';

/** Returns null if the connection just broke and there is nothing to report. */
function errorOf({ code = '', reason = '' }: ParserError): WaybillError | null {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new WaybillError('request_timeout', 'the request did not arrive in time', {
      hint: 'send it again',
    });
  if (code === 'HPE_HEADER_OVERFLOW')
    return new WaybillError('headers_too_large', `the head is longer than ${http.maxHeaderSize} bytes`, {
      hint: 'send fewer or shorter headers, or a shorter path',
    });
  // This is how the parser reports a transfer coding other than `chunked` in last position.
  if (code === 'HPE_INVALID_TRANSFER_ENCODING' && reason.startsWith('Request has'))
    return unsupportedCoding();
  return code.startsWith('HPE_') ? malformed(`the request is not valid HTTP (${reason})`) : null;
}
