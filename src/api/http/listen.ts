import { once } from 'node:events';
import http, { type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../core/clock.ts';
import { WaybillError } from '../../core/errors.ts';

export interface HttpServer {
  /** `http://127.0.0.1:8080`, with the port that was really bound. */
  origin: string;
  /** Accepts no more connections, waits a few seconds for the last answers, and cuts what is left. */
  close(): Promise<void>;
}

const headersTimeoutMs = 30_000;
// Longer than the 60 s for which proxies commonly keep an idle connection, so that we never close one that
// the proxy is about to use.
const keepAliveTimeoutMs = 65_000;
// A little longer than an early refusal drains the body.
const lastAnswersMs = 6_000;

/**
 * Listens on `host` and `port`. `requestTimeout` is off because it would cut slow uploads; the upload route
 * has its own idle and total limits. Throws `config_invalid` if the address cannot be bound.
 */
export async function listen(
  listener: RequestListener,
  { host, port }: { host: string; port: number },
  clock: Clock,
): Promise<HttpServer> {
  const server = http.createServer(
    { requestTimeout: 0, headersTimeout: headersTimeoutMs, keepAliveTimeout: keepAliveTimeoutMs },
    listener,
  );
  // Without this Node.js would answer 100 Continue before anything was checked.
  server.on('checkContinue', listener);
  try {
    server.listen(port, host);
    await once(server, 'listening');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new WaybillError('config_invalid', `server.http.listen: cannot listen on ${host}:${port}: ${why}`, {
      cause,
      hint: 'choose a free port of this machine, or stop the daemon that has it',
    });
  }
  const bound = server.address() as AddressInfo;
  return {
    origin: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      const timer = clock.timeout(lastAnswersMs, () => server.closeAllConnections());
      await closed;
      timer.cancel();
    },
  };
}
