import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { Clock, Timer } from '../core/lib/clock.ts';
import { WaybillError } from '../core/lib/errors.ts';
import { onAbort } from '../core/lib/on-abort.ts';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PATCH';

/** A single request. All times are in milliseconds. */
export interface HttpRequest {
  method: Method;
  url: URL;
  headers: Readonly<Record<string, string>>;
  /** The body, or null. It is not sent until the server has accepted the headers. */
  body: AsyncIterable<Uint8Array> | null;
  /** The timeout for a request or response body that makes no progress. */
  idleMs: number;
  /** The timeout for the response headers, once the request has been sent. */
  answerMs: number;
  signal: AbortSignal | undefined;
  clock: Clock;
}

export interface HttpResponse {
  url: URL;
  status: number;
  headers: http.IncomingHttpHeaders;
  /** Reads the body. Can only be called once. When the iteration ends, the connection is closed. */
  read(): AsyncGenerator<Uint8Array>;
  /** Closes the connection. */
  close(): void;
}

/** How long to wait for `100 Continue`, since some servers ignore the header. curl waits just as long. */
const continueMs = 1000;
/** The timeout for connecting, including the TLS handshake. */
const connectMs = 30_000;

/**
 * Sends a request over a new connection and resolves with the response headers. This uses `node:http`,
 * because `fetch` does not support `Expect: 100-continue`, and loses a response that arrives while the body
 * is still being sent. Throws the error of the connection or the body, or the reason of `signal`. If the
 * connection stalls, the error is `connection_lost`.
 */
export async function sendRequest(options: HttpRequest): Promise<HttpResponse> {
  const { method, url, headers, body, signal, clock } = options;
  signal?.throwIfAborted();
  const request = (url.protocol === 'https:' ? https : http).request(url, {
    method,
    headers: { ...headers, ...(body === null ? {} : { expect: '100-continue' }) },
    agent: false,
  });
  const watch = watchdog(clock, url.origin, (error) => request.destroy(error));
  const abort = (): void => void request.destroy(signal?.reason as Error);
  const release = signal === undefined ? undefined : onAbort(signal, abort);
  const close = (): void => {
    watch.stop();
    release?.();
    request.destroy();
  };
  const answered = headOf(request);
  try {
    watch.within(Math.min(connectMs, options.answerMs), 'no connection', 'daemon_unreachable');
    request.once('socket', (socket) =>
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () =>
        watch.within(options.answerMs, 'no answer'),
      ),
    );
    if (body === null) request.end();
    else await feed(request, answered, { ...options, body, watch });
    const response = await answered;
    watch.within(options.idleMs, 'the answer stalled');
    const read = (): AsyncGenerator<Uint8Array> =>
      bytesOf(response, { watch, idleMs: options.idleMs, close });
    return { url, status: response.statusCode ?? 0, headers: response.headers, read, close };
  } catch (error) {
    close();
    throw error;
  }
}

async function headOf(request: http.ClientRequest): Promise<http.IncomingMessage> {
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    // Keep the listener, because an error that occurs after the response must not end the process.
    request.on('error', reject);
    request.once('close', () => reject(new Error('the connection was closed without an answer')));
  });
  answered.catch(() => undefined); // Errors are handled later, after the body has been sent.
  return answered;
}

/** Sends the body until it ends, a response arrives, or the connection fails. Throws the body's error. */
async function feed(
  request: http.ClientRequest,
  answered: Promise<http.IncomingMessage>,
  {
    body,
    clock,
    idleMs,
    answerMs,
    watch,
  }: HttpRequest & { body: AsyncIterable<Uint8Array>; watch: IdleTimer },
): Promise<void> {
  const state = { isOver: false };
  const end = (): void => void (state.isOver = true);
  const over = answered.then(end, end);
  await Promise.race([over, continued(request, clock)]);
  for await (const chunk of body) {
    if (state.isOver) return;
    watch.within(idleMs, 'the server stopped reading the body');
    if (!request.write(chunk)) await Promise.race([over, once(request, 'drain').catch(() => undefined)]);
  }
  if (!state.isOver) request.end();
  watch.within(answerMs, 'no answer');
}

async function continued(request: http.ClientRequest, clock: Clock): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.timeout(continueMs, resolve);
    const go = (): void => {
      timer.cancel();
      resolve();
    };
    request.once('continue', go).once('close', go).once('response', go);
    request.flushHeaders();
  });
}

async function* bytesOf(
  response: http.IncomingMessage,
  { watch, idleMs, close }: { watch: IdleTimer; idleMs: number; close: () => void },
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of response) {
      watch.within(idleMs, 'the answer stalled');
      yield chunk as Buffer;
    }
  } finally {
    close();
  }
}

interface IdleTimer {
  /** Restarts the timeout. If this is not called again within `ms` milliseconds, the request fails. */
  within(ms: number, otherwise: string, code?: 'connection_lost' | 'daemon_unreachable'): void;
  stop(): void;
}

function watchdog(clock: Clock, origin: string, onTimeout: (error: WaybillError) => void): IdleTimer {
  let timer: Timer | null = null;
  let deadline = 0;
  let isStopped = false;
  let late = (): WaybillError => new WaybillError('connection_lost', 'nothing came');
  // Use a single timer, because a body of 1 GiB consists of a hundred thousand chunks.
  const check = (): void => {
    const leftMs = deadline - clock.monotonic();
    if (leftMs > 0) timer = clock.timeout(Math.ceil(leftMs), check);
    else onTimeout(late());
  };
  return {
    within(ms, otherwise, code = 'connection_lost') {
      if (isStopped) return;
      const isSooner = timer === null || clock.monotonic() + ms < deadline;
      deadline = clock.monotonic() + ms;
      late = () => new WaybillError(code, `${origin}: ${otherwise} for ${Math.ceil(ms / 1000)} s`);
      if (!isSooner) return;
      timer?.cancel();
      timer = clock.timeout(ms, check);
    },
    stop() {
      isStopped = true;
      timer?.cancel();
    },
  };
}
