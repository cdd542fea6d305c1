import type { RequestListener, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { listen } from '../../../src/api/http/listen.ts';
import { newRequestGate } from '../../../src/cli/daemon/listener.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { logControl, silentLog } from '../../../src/core/lib/log.ts';
import { connect } from '../../api/harness.ts';

/** Requests that arrive while a daemon starts, and their responses. */

const badCoding = 'POST /bad HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n';
const badChunk = 'POST /bad HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n';

async function startGate(t: Test): Promise<{
  /** Sends the bytes. Resolves to the response. */
  send: (bytes: string) => Promise<string>;
  /** Opens the gate to a listener that responds with the path, and records it. */
  open: () => void;
  handled: string[];
}> {
  const entrance = newRequestGate();
  const ports = { clock: systemClock, log: silentLog, logging: logControl(), metrics: null };
  const options = { host: '127.0.0.1', port: 0, maxConnections: 10, uploadTimeoutMs: 60_000 };
  const server = await listen(entrance.listener, options, ports);
  t.teardown(() => server.close());
  const handled: string[] = [];
  return {
    handled,
    open: () =>
      entrance.open((req, res) => {
        handled.push(`${req.url}${res.headersSent ? ', which was answered' : ''}`);
        if (!res.headersSent) res.end(req.url);
      }),
    send: async (bytes) => {
      const { socket, until } = await connect(t, server.origin);
      socket.write(bytes);
      return until(/\r\n\r\n(\{.*\}|\/\w+)/);
    },
  };
}

t.test('answers HTTP requests from the startup phase once it is ready', async (t) => {
  const { send, open, handled } = await startGate(t);
  const early = send('GET /early HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(await send(badChunk), /^HTTP\/1.1 400 [^]*"code":"malformed_request"/);
  t.match(await send(badCoding), /^HTTP\/1.1 501 [^]*"code":"unsupported_transfer_coding"/);
  open();
  t.match(await early, /^HTTP\/1.1 200 [^]*\/early/);
  t.match(await send('GET /late HTTP/1.1\r\nHost: x\r\n\r\n'), /^HTTP\/1.1 200 [^]*\/late/);
  t.same(handled, ['/early', '/late']);
});

t.test('drops a request whose client disconnects before it is ready', async (t) => {
  const entrance = newRequestGate();
  const responses: ServerResponse[] = [];
  const ports = { clock: systemClock, log: silentLog, logging: logControl(), metrics: null };
  const options = { host: '127.0.0.1', port: 0, maxConnections: 10, uploadTimeoutMs: 60_000 };
  const listener: RequestListener = (req, res) => {
    responses.push(res);
    entrance.listener(req, res);
  };
  const server = await listen(listener, options, ports);
  t.teardown(() => server.close());
  const { socket } = await connect(t, server.origin);
  socket.write('POST /activate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n');
  while (responses.length === 0) await systemClock.sleep(1);
  socket.destroy();
  while (responses[0]?.closed !== true) await systemClock.sleep(1);
  entrance.open(() => t.fail('it began'));
});

t.test('passes on an invalid request immediately', async (t) => {
  const { send, open, handled } = await startGate(t);
  open();
  await send(badChunk);
  t.same(handled, ['/bad']);
});
