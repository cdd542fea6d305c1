import { once } from 'node:events';
import http, { type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Clock } from '../../core/lib/clock.ts';
import { errorMessage, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';
import { answerRefusedBytes, type RefusalPorts } from './refused-bytes.ts';
import { requestContext } from './request/request-context.ts';
import { useOriginForm } from './request/request-head.ts';

export interface HttpServer {
  /** The origin, with the actual port: `http://127.0.0.1:8080`. */
  origin: string;
  connections: () => ConnectionStats;
  /**
   * Stops accepting connections, gives pending responses a few seconds to finish, and then closes everything.
   */
  close(): Promise<void>;
}

export interface ConnectionStats {
  open: number;
  /**
   * The number of connections that were closed on arrival since startup, because `max_connections` was
   * reached.
   */
  refused: number;
}

export interface ListenOptions {
  /** The setting with the address, used in error messages. Default: `server.http.listen`. */
  setting?: string;
  host: string;
  port: number;
  /** The file descriptor of an inherited socket to use instead of `host` and `port`. */
  inherited?: number | null;
  maxConnections: number;
  uploadTimeoutMs: number;
  /** The time limit for receiving a request head. Default: 30 s. */
  headersTimeoutMs?: number;
  onAccepted?: () => void;
}

export const usualHeadersMs = 30_000;
// How often Node.js looks for requests that are taking too long.
const maxCheckMs = 5_000;
// Proxies typically close idle connections after 60 s. We wait longer to avoid closing one that a proxy is
// about to reuse.
const keepAliveTimeoutMs = 65_000;
// A bit longer than we keep draining a body after an early error response.
const lastAnswersMs = 6_000;
// A fallback for requests with a body that no route reads. Routes that read it have their own timeouts, which
// send an error response.
const requestGraceMs = 60_000;
const refusalLogMs = 60_000;
/** With more requests that wait for the response before theirs, a connection is closed. They need memory. */
export const maxWaitingRequests = 100;

/**
 * Listens on `host` and `port`, or on the inherited socket. Connections are closed if they do not send a
 * complete request head within `headersTimeoutMs`, or right away if there are more than `max_connections`,
 * which is logged at most once a minute. `listener` gets every request, even one with an invalid head, so the
 * application has to check it with `refusedHead`. Throws `config_invalid` if it cannot bind to the address or
 * use the inherited socket.
 */
export async function listen(
  listener: RequestListener,
  options: ListenOptions,
  ports: RefusalPorts,
): Promise<HttpServer> {
  const { clock, log } = ports;
  const { uploadTimeoutMs } = options;
  const { headersTimeoutMs: headersTimeout = usualHeadersMs } = options;
  const server = http.createServer({
    headersTimeout,
    requestTimeout: uploadTimeoutMs + requestGraceMs,
    connectionsCheckingInterval: Math.min(maxCheckMs, headersTimeout),
    keepAliveTimeout: keepAliveTimeoutMs,
    requireHostHeader: false,
  });
  const routed: RequestListener = (req, res) => {
    useOriginForm(req);
    listener(req, res);
  };
  const handle = answerRefusedBytes(server, oneByOne(withAcceptTime(server, clock, routed)), ports);
  // By default, Node.js sends 100 Continue before we can check the request, and 417 without a body.
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, handle);
  server.on('connection', options.onAccepted ?? (() => undefined));
  const connections = limitConnections(server, options.maxConnections, clock, log);
  const bound = await bind(server, options);
  logAcceptErrors(server, clock, log);
  return {
    origin: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    connections,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      const timer = clock.timeout(lastAnswersMs, () => server.closeAllConnections());
      await closed;
      timer.cancel();
    },
  };
}

/** The messages and hints for errors from `listen`. */
const listenErrors: Readonly<Record<string, readonly [string, string]>> = {
  EADDRINUSE: [
    'another program uses this port',
    'choose a free port, or stop that program; `ss -ltnp` lists the programs that listen',
  ],
  EADDRNOTAVAIL: [
    'this machine does not have that address',
    'choose an address of this machine; 0.0.0.0 and [::] mean all of them',
  ],
  EACCES: ['permission denied', 'choose a port above 1023, or let systemd pass on the socket'],
};

async function bind(server: Server, options: ListenOptions): Promise<AddressInfo> {
  const { host, port, inherited = null, setting = 'server.http.listen' } = options;
  try {
    if (inherited === null) server.listen(port, host);
    else server.listen({ fd: inherited });
    await once(server, 'listening');
  } catch (cause) {
    const why = errorMessage(cause);
    if (inherited !== null) throw unusable(`cannot listen on it: ${why}`, cause);
    const [reason, hint] = listenErrors[errnoOf(cause) ?? ''] ?? [why, 'choose another address or port'];
    throw new WaybillError('config_invalid', `${setting}: cannot listen on ${host}:${port}: ${reason}`, {
      cause,
      hint,
    });
  }
  const bound = server.address();
  if (bound !== null && typeof bound !== 'string') return bound;
  server.close();
  throw unusable('it is not a TCP socket');
}

function unusable(why: string, cause?: unknown): WaybillError {
  return new WaybillError('config_invalid', `the socket that systemd passes on cannot be used: ${why}`, {
    cause,
    hint: 'in the .socket unit: ListenStream= with an address and a port, and no Accept=yes',
  });
}

/**
 * Handles the requests of a connection one after the other. Node.js would begin a request that was sent
 * before the previous response ended, and would not emit `close` for its response if the client disconnects.
 * The request would then keep its shares and its memory, and be missing from log and metrics.
 */
function oneByOne(listener: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>();
  return (req, res) => {
    if (res.socket !== null) {
      listener(req, res);
      return;
    }
    const { socket } = req;
    const count = (waiting.get(socket) ?? 0) + 1;
    waiting.set(socket, count);
    if (count > maxWaitingRequests) socket.destroy();
    else
      res.once('socket', () => {
        waiting.set(socket, (waiting.get(socket) ?? 1) - 1);
        // Meanwhile, invalid input may have been answered already.
        if (!res.headersSent) listener(req, res);
      });
  };
}

/** Adds the time at which a connection was accepted to the context of its first request. */
function withAcceptTime(server: Server, clock: Clock, listener: RequestListener): RequestListener {
  const acceptedAt = new WeakMap<Socket, number>();
  server.on('connection', (socket) => acceptedAt.set(socket, clock.monotonic()));
  return (req, res) => {
    const at = acceptedAt.get(req.socket);
    if (at !== undefined) {
      acceptedAt.delete(req.socket);
      requestContext(req).acceptedAt = at;
    }
    listener(req, res);
  };
}

/** A connection that cannot be accepted must not end the process. */
function logAcceptErrors(server: Server, clock: Clock, log: Log): void {
  let quietUntil = -Infinity;
  server.on('error', (error) => {
    if (clock.monotonic() < quietUntil) return;
    quietUntil = clock.monotonic() + refusalLogMs;
    log.error({ err: error }, 'a connection could not be accepted');
  });
}

function limitConnections(server: Server, maximum: number, clock: Clock, log: Log): () => ConnectionStats {
  const stats: ConnectionStats = { open: 0, refused: 0 };
  let quietUntil = -Infinity;
  server.maxConnections = maximum;
  server.on('connection', (socket) => {
    stats.open += 1;
    socket.once('close', () => (stats.open -= 1));
  });
  server.on('drop', () => {
    stats.refused += 1;
    if (clock.monotonic() < quietUntil) return;
    quietUntil = clock.monotonic() + refusalLogMs;
    log.warn(
      { max_connections: maximum, refused: stats.refused },
      'the maximum number of connections is open; new ones are closed',
    );
  });
  return () => ({ ...stats });
}
