import { connect as connectPlain, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { onAbort } from './on-abort.ts';

/**
 * Connects to the server in a URL (http, https, redis or rediss) and disconnects without sending anything.
 * Uses TLS if the URL does. Throws the error that prevented the connection, such as ECONNREFUSED or a problem
 * with the certificate, or the signal's reason.
 */
export async function reachServer(
  url: URL,
  { signal, lookup }: { signal: AbortSignal; lookup?: LookupFunction },
): Promise<void> {
  const isTls = url.protocol === 'https:' || url.protocol === 'rediss:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (defaultPorts[url.protocol] ?? 80) : Number(url.port);
  const options = { host, port, lookup };
  return new Promise((resolve, reject) => {
    const socket: Socket = isTls
      ? connectTls({ ...options, servername: isIP(host) === 0 ? host : undefined })
      : connectPlain(options);
    const release = onAbort(signal, () => socket.destroy(signal.reason as Error));
    socket
      .once(isTls ? 'secureConnect' : 'connect', () => {
        resolve();
        socket.end();
      })
      // Do not remove this once connected. A server may reset a connection if there is no request.
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
