import { once } from 'node:events';
import net from 'node:net';
import type { Test } from 'tap';

/**
 * How a server is unreachable.
 * - `refuse`: nothing listens.
 * - `reset`: every connection is reset.
 * - `silent`: connections open, and no byte passes. All bytes arrive when the outage ends.
 * - `half open`: the same, but connections from the outage stay dead after it.
 * - `503`: a proxy in front of an HTTP server answers.
 */
export type Outage = 'refuse' | 'reset' | 'silent' | 'half open' | '503';

/** A TCP proxy in front of a real server that can simulate an outage. */
export interface OutageProxy {
  port: number;
  begin(outage: Outage): void;
  end(): void;
  /** Calls `callback` once, before it passes on the byte after the next `bytes` bytes from clients. */
  afterBytes(bytes: number, callback: () => void): void;
}

interface Line {
  client: net.Socket;
  server: net.Socket;
  /** Whether the last bytes came from the client. */
  isAsking: boolean;
}

const slowDown = '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>no backend</Message></Error>';
const answer503 = `HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/xml\r\ncontent-length: ${slowDown.length}\r\nconnection: close\r\n\r\n${slowDown}`;

/** @param port The port of the proxy. It stays free while nothing listens on it. */
export async function startOutageProxy(
  t: Pick<Test, 'teardown'>,
  { target, port }: { target: number; port: number },
): Promise<OutageProxy> {
  const lines = new Set<Line>();
  let outage: Outage | null = null;
  let left = Infinity;
  let onBytes = (): void => undefined;

  const destroy = (line: Line): void => {
    lines.delete(line);
    line.client.destroy();
    line.server.destroy();
  };
  const apply = (line: Line, now: Outage): void => {
    const { client, server } = line;
    if (now === 'silent' || now === 'half open') {
      client.pause();
      server.pause();
      // The connection stays in the set only to be destroyed at the end.
      if (now === 'half open') client.removeAllListeners('data');
      return;
    }
    server.destroy();
    if (now !== '503') {
      client.resetAndDestroy();
      return;
    }
    client.removeAllListeners('data').on('data', () => undefined);
    if (line.isAsking) client.end(answer503);
    else client.once('data', () => client.end(answer503));
  };
  const forward = (from: net.Socket, to: net.Socket, line: Line): void => {
    from.on('data', (bytes) => {
      line.isAsking = from === line.client;
      if (from === line.client && (left -= bytes.length) < 0) {
        left = Infinity;
        onBytes();
      }
      // Bytes that arrive during the outage are lost, except with `silent`.
      if (outage !== null && outage !== 'silent') return;
      if (to.write(bytes) || outage !== null) return;
      from.pause();
      to.once('drain', () => outage === null && from.resume());
    });
    from.on('end', () => outage === '503' || to.end());
    from.on('error', () => destroy(line));
    from.on('close', () => (outage === '503' && from === line.server) || destroy(line));
  };
  const listener = net.createServer({ allowHalfOpen: true }, (client) => {
    const server = net.connect({ port: target, host: '127.0.0.1', allowHalfOpen: true });
    const line = { client, server, isAsking: false };
    lines.add(line);
    forward(client, server, line);
    forward(server, client, line);
    if (outage !== null) apply(line, outage);
  });
  const listen = (): void => void listener.listen(port, '127.0.0.1');
  listen();
  await once(listener, 'listening');
  t.teardown(async () => {
    for (const line of [...lines]) destroy(line);
    if (!listener.listening) return;
    listener.close();
    await once(listener, 'close');
  });
  return {
    port,
    begin(next) {
      outage = next;
      for (const line of [...lines]) apply(line, next);
      if (next === 'refuse') listener.close();
    },
    end() {
      const ended = outage;
      outage = null;
      if (ended === 'refuse') listen();
      if (ended !== 'silent') return;
      for (const { client, server } of lines) {
        client.resume();
        server.resume();
      }
    },
    afterBytes(bytes, callback) {
      [left, onBytes] = [bytes, callback];
    },
  };
}
