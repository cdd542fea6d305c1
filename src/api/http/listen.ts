import { once } from 'node:events';
import http, { type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WaybillError } from '../../core/errors.ts';

export interface HttpServer {
  /** `http://127.0.0.1:8080`, with the port that was really bound. */
  origin: string;
  /** Takes no more connections, waits a little for the last answers, and cuts what is left. */
  close(): Promise<void>;
}

const headersTimeoutMs = 30_000;
// Longer than the 60 s for which proxies commonly keep an idle connection, so that it is never us who closes
// it under a request.
const keepAliveTimeoutMs = 65_000;
// A little more than an early refusal lingers.
const lastAnswersMs = 6_000;

/**
 * Listens on `host` and `port`. `requestTimeout` is off because it would cut slow uploads; the upload route
 * has an idle and a total limit of its own. Throws `config_invalid` where the address cannot be had.
 */
export async function listen(
  listener: RequestListener,
  { host, port }: { host: string; port: number },
): Promise<HttpServer> {
  const server = http.createServer(
    { requestTimeout: 0, headersTimeout: headersTimeoutMs, keepAliveTimeout: keepAliveTimeoutMs },
    listener,
  );
  // Without this node would tell the client to go on before anything was checked.
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
      const timer = setTimeout(() => server.closeAllConnections(), lastAnswersMs);
      await closed;
      clearTimeout(timer);
    },
  };
}
