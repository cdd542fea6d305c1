import { connect as connectPlain, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { onAbort } from './on-abort.ts';

/**
 * Connects to the server of a URL (http, https, redis, rediss), using TLS if the URL requires it, and
 * disconnects without sending a request. Throws the connection error, such as ECONNREFUSED or a certificate
 * error, or the signal's reason.
 */
export async function reachServer(
  url: URL,
  { signal, lookup }: { signal: AbortSignal; lookup?: LookupFunction },
): Promise<void> {
  const isTls = url.protocol === 'https:' || url.protocol === 'rediss:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (defaultPorts[url.protocol] ?? 80) : Number(url.port);
  const options = { host, port, ...(lookup === undefined ? {} : { lookup }) };
  return new Promise((resolve, reject) => {
    const socket: Socket = isTls
      ? connectTls({ ...options, ...(isIP(host) === 0 ? { servername: host } : {}) })
      : connectPlain(options);
    const release = onAbort(signal, () => socket.destroy(signal.reason as Error));
    socket
      .once(isTls ? 'secureConnect' : 'connect', () => {
        resolve();
        socket.end();
      })
      // Keep the handler after connecting, because a server may reset a connection without a request.
      .on('error', reject)
      .on('close', release)
      .resume();
  });
}

const defaultPorts: Readonly<Record<string, number>> = {
  'http:': 80,
  'https:': 443,
  'redis:': 6379,
  'rediss:': 6379,
};
