import { once } from 'node:events';
import http, { type ServerResponse } from 'node:http';
import net from 'node:net';
import t, { type Test } from 'tap';
import { type HttpServer, listen } from '../../../src/api/http/listen.ts';
import { logControl, silentLog } from '../../../src/core/lib/log.ts';
import { type ManualClock, manualClock } from '../../workers/manual-clock.ts';
import { connect, startApi, uploadHead } from '../harness.ts';
import { answered, headOf, isHeldInMemory, withBody } from '../stalled-bodies.ts';

/** How long the server waits for stalled clients, with a clock that the test controls. */

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const hour = 3_600_000;

t.test(
  'a document times out after a minute, or 30 s without a token, whatever the upload timeout is',
  async (t) => {
    const clock = manualClock();
    const api = await startApi(t, { clock, http: { uploadTimeoutMs: hour, idleTimeoutMs: hour } });
    const clients = await Promise.all(
      withBody.filter(isHeldInMemory).map(async (route) => {
        const client = await connect(t, api.origin);
        client.socket.write(`${headOf(route)}-`);
        return { ...client, name: route.name };
      }),
    );
    t.ok(clients.length > 5, `${clients.length} kinds of documents`);
    const upload = await connect(t, api.origin);
    upload.socket.write(`${uploadHead({ 'Content-Length': 100 })}-`);
    while (api.ports.bodyMemory.held() < clients.length || (await api.staged()).length === 0) await turn();
    const anonymous = clients.filter(({ name }) => name.startsWith('validateSceneMap'));
    const others = clients.filter((client) => !anonymous.includes(client));
    for (const late of [anonymous, others]) {
      await clock.advance(29_999);
      for (const { name, received } of late) t.equal(received(), '', name);
      await clock.advance(1);
      for (const { name, until, socket } of late) {
        t.match(await until(answered), /^HTTP\/1.1 408 [^]*was not complete after [36]0000 ms/, name);
        socket.destroy();
      }
    }
    t.equal(upload.received(), '', 'an archive has a separate timeout');
    upload.socket.destroy();
  },
);

t.test('a refused client that keeps sending byte by byte is disconnected after five seconds', async (t) => {
  const clock = manualClock();
  const { origin } = await startApi(t, { clock });
  const { socket, until, closed } = await connect(t, origin);
  socket.write(uploadHead({ Authorization: 'Bearer guess', 'Content-Length': 1e9 }));
  t.match(await until(answered), /^HTTP\/1.1 401 /);
  const trickle = setInterval(() => socket.write('-'), 5);
  t.teardown(() => clearInterval(trickle));
  await clock.advance(4_999);
  t.notOk(socket.destroyed || socket.readableEnded);
  await clock.advance(1);
  await closed.catch(() => 'reset');
  t.ok(socket.destroyed);
});

/** A server that never answers, and a promise that resolves with the first request. */
async function silentServer(
  t: Test,
  clock: ManualClock,
): Promise<{ server: HttpServer; asked: Promise<void> }> {
  let ask: () => void = () => undefined;
  const asked = new Promise<void>((resolve) => (ask = resolve));
  const server = await listen(
    () => ask(),
    { host: '127.0.0.1', port: 0, maxConnections: 10, uploadTimeoutMs: hour },
    { clock, log: silentLog, logging: logControl(), metrics: null },
  );
  t.teardown(async () => {
    const closing = server.close();
    await clock.advance(hour);
    await closing;
  });
  return { server, asked };
}

t.test(
  'a connection that cannot be accepted is logged once a minute, and does not end the process',
  async (t) => {
    const servers: http.Server[] = [];
    const { createServer } = http;
    t.teardown(() => (http.createServer = createServer));
    http.createServer = ((options: http.ServerOptions) => {
      const server = createServer(options);
      servers.push(server);
      return server;
    }) as typeof createServer;
    const clock = manualClock();
    const errors: string[] = [];
    const log = { ...silentLog, error: (_: object, message: string) => void errors.push(message) };
    const options = { host: '127.0.0.1', port: 0, maxConnections: 10, uploadTimeoutMs: hour };
    const server = await listen(() => undefined, options, {
      clock,
      log,
      logging: logControl(),
      metrics: null,
    });
    t.teardown(() => server.close());
    const emit = (): void => void servers[0]?.emit('error', new Error('accept EMFILE'));
    emit();
    emit();
    t.same(errors, ['a connection could not be accepted']);
    await clock.advance(60_000);
    emit();
    t.equal(errors.length, 2);
  },
);

t.test('a request that was sent early begins after the response before it', async (t) => {
  const begun: [string | undefined, ServerResponse][] = [];
  const options = { host: '127.0.0.1', port: 0, maxConnections: 10, uploadTimeoutMs: hour };
  const server = await listen((req, res) => void begun.push([req.url, res]), options, {
    clock: manualClock(),
    log: silentLog,
    logging: logControl(),
    metrics: null,
  });
  t.teardown(() => server.close());
  const { socket, until, closed } = await connect(t, server.origin);
  const requests = ['/1', '/2', '/3'].map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  socket.write(requests.join(''));
  while (begun.length === 0) await turn();
  await turn();
  t.same(
    begun.map(([path]) => path),
    ['/1'],
  );
  begun[0]?.[1].end('first');
  await until(/first/);
  while (begun.length === 1) await turn();
  socket.destroy();
  await closed.catch(() => undefined);
  while (begun[1]?.[1].closed !== true) await turn();
  await turn();
  t.same(
    begun.map(([path]) => path),
    ['/1', '/2'],
    'the client left before the last one',
  );
});

t.test('a connection with more than a hundred waiting requests is closed', async (t) => {
  const { server, asked } = await silentServer(t, manualClock());
  const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
  const patient = await connect(t, server.origin);
  patient.socket.write(request.repeat(101));
  await asked;
  const flood = await connect(t, server.origin);
  flood.socket.write(request.repeat(102));
  t.equal(await flood.closed.catch(() => ''), '');
  t.notOk(patient.socket.destroyed);
});

t.test('a closing server waits at most six seconds for its last answers', async (t) => {
  const clock = manualClock();
  const { server, asked } = await silentServer(t, clock);
  const { socket, closed } = await connect(t, server.origin);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await asked;
  const closing = server.close();
  await clock.advance(5_999);
  t.equal(server.connections().open, 1);
  await clock.advance(1);
  await closing;
  t.equal(await closed.catch(() => ''), '');
});

t.test('an endless sender of bytes that are not HTTP is disconnected, however fast it sends', async (t) => {
  const { server } = await silentServer(t, manualClock());
  const { port } = new URL(server.origin);
  const client = net.connect({ host: '127.0.0.1', port: Number(port), allowHalfOpen: true });
  t.teardown(() => client.destroy());
  const pump = (): void => {
    while (!client.destroyed && client.write(Buffer.alloc(0x100000)));
    client.once('drain', pump);
  };
  // The test expects the reset.
  client.on('error', () => undefined).resume();
  client.write('no HTTP\r\n\r\n');
  pump();
  await new Promise((resolve) => client.once('close', resolve));
  t.ok(client.bytesWritten > 64 * 0x100000, `after ${client.bytesWritten} bytes`);
});

t.test('an invalid client that goes silent keeps its connection for five seconds', async (t) => {
  const clock = manualClock();
  const { server } = await silentServer(t, clock);
  const { port } = new URL(server.origin);
  const client = net.connect({ host: '127.0.0.1', port: Number(port), allowHalfOpen: true });
  t.teardown(() => client.destroy());
  client.write('no HTTP\r\n\r\n');
  let answer = '';
  client.setEncoding('latin1').on('data', (chunk: string) => (answer += chunk));
  await once(client, 'end');
  t.match(answer, /^HTTP\/1.1 400 [^]*"code":"malformed_request"/);
  await clock.advance(4_999);
  t.equal(server.connections().open, 1);
  await clock.advance(1);
  while (server.connections().open > 0) await turn();
});
