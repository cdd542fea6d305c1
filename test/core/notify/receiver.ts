import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import type { Event } from '../../../src/core/notify/event.ts';

export interface Received {
  method: string | undefined;
  path: string | undefined;
  headers: IncomingHttpHeaders;
  body: string;
  event: Event;
}

export interface Receiver {
  /** The URL, which ends with `/hook`. */
  url: string;
  received: Received[];
}

/** A real HTTP server that records requests and answers as configured. `attempt` starts at 1. */
export async function startReceiver(
  t: Test,
  answer: (response: ServerResponse, attempt: number, received: Received) => void = (response) =>
    void response.writeHead(204).end(),
): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      let body = '';
      for await (const chunk of request.setEncoding('utf8')) body += chunk as string;
      const { method, url, headers } = request;
      const one = { method, path: url, headers, body, event: JSON.parse(body) as Event };
      received.push(one);
      answer(response, received.length, one);
    })();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received };
}

/** A port without a listener. */
export async function deadPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Real time, but pauses are only recorded. */
export function impatientClock(): Clock & { pauses: number[] } {
  const pauses: number[] = [];
  return { ...systemClock, pauses, sleep: async (ms) => void pauses.push(ms) };
}
