import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import net from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { maxResponseBytes } from '../../../../src/core/storage/s3/answer-limit.ts';
import { BucketClient } from '../../../../src/core/storage/s3/s3-client.ts';

/** Every wait on an S3 server ends, and its connection is closed. See docs/design/waits.md. */

const bytes = Buffer.alloc(16 << 20);
const sha256 = createHash('sha256').update(bytes).digest('hex');

/** The server's ends of the connections. A server that does not read does not notice that the client left. */
const served = new Set<net.Socket>();
const clientDescriptors = (): number => readdirSync('/proc/self/fd').length - served.size;

type Serve = (socket: net.Socket, begin: string) => void;

async function wireTo(t: Test, serve: Serve, silenceMs = 200): Promise<BucketClient> {
  const server = net.createServer((socket) => {
    served.add(socket);
    socket.on('close', () => served.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.once('data', (begin: Buffer) => serve(socket, begin.toString('latin1', 0, 100)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of served) socket.destroy();
    server.close();
    await once(server, 'close');
    while (served.size > 0) await systemClock.sleep(5);
  });
  const endpoint = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`;
  return new BucketClient({
    location: {
      ...{ backend: 's3', bucket: 'maps', prefix: '', endpoint, region: 'us-east-1', pathStyle: true },
      credentials: null,
    },
    credentials: { accessKeyId: 'id', secretAccessKey: 'secret' },
    clock: systemClock,
    silenceMs,
  });
}

type Call = 'list' | 'head' | 'put' | 'remove' | 'get';
const calls: Record<Call, (wire: BucketClient) => Promise<unknown>> = {
  list: (wire) => wire.list({ prefix: '', oneLevel: false, token: null, pageSize: 1 }),
  head: (wire) => wire.head('key'),
  put: (wire) => wire.put('key', bytes, { sha256, headers: {} }),
  remove: (wire) => wire.remove('key'),
  get: async (wire) => {
    let size = 0;
    for await (const chunk of await wire.get('key')) size += chunk.byteLength;
    return size;
  },
};

const begun = 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n<begun';

const cases: [string, Serve, Call[]][] = [
  ['after it accepted the connection', () => undefined, ['list', 'head', 'put', 'remove', 'get']],
  ['while a body is sent', (socket) => void socket.pause(), ['put']],
  ['in the middle of an answer', (socket) => void socket.write(begun), ['list', 'get']],
  [
    'in the middle of an error',
    (socket) => void socket.write(begun.replace('200 OK', '503 Slow')),
    ['list', 'put', 'get'],
  ],
];

for (const [when, serve, names] of cases)
  for (const name of names)
    t.test(
      `${name}: a server that goes silent ${when} fails the call and leaves no connection`,
      async (t) => {
        const wire = await wireTo(t, serve);
        const before = clientDescriptors();
        await t.rejects(calls[name](wire), { code: 'storage_transient', message: /no answer in time/ });
        wire.close();
        while (clientDescriptors() > before) await systemClock.sleep(5);
      },
    );

t.test('a reset is reported as a lost connection, not as a missing answer', async (t) => {
  const wire = await wireTo(t, (socket) => void socket.resetAndDestroy(), 60_000);
  for (const call of Object.values(calls))
    await t.rejects(call(wire), { code: 'storage_transient', message: /the connection was lost/ });
  wire.close();
});

t.test('the error has the pause that the server requested', async (t) => {
  const answer = 'HTTP/1.1 503 Slow\r\nretry-after: 7\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
  const wire = await wireTo(t, (socket) => void socket.end(answer), 60_000);
  await t.rejects(calls.list(wire), { code: 'storage_transient', retryAfterSeconds: 7 });
  await t.rejects(calls.get(wire), { code: 'storage_transient', retryAfterSeconds: 7 });
  wire.close();
});

for (const status of ['200 OK', '500 Broken'])
  t.test(`rejects an oversized answer, and closes its connection (${status})`, async (t) => {
    const piece = Buffer.from(`10000\r\n${'x'.repeat(0x10000)}\r\n`);
    const wire = await wireTo(
      t,
      (socket) => {
        let left = (3 * maxResponseBytes) / 0x10000;
        const send = (): void => {
          while (left > 0 && !socket.destroyed) {
            left -= 1;
            if (!socket.write(piece)) return;
          }
          socket.end('0\r\n\r\n');
        };
        socket.on('drain', send);
        socket.write(`HTTP/1.1 ${status}\r\ntransfer-encoding: chunked\r\n\r\n`);
        send();
      },
      60_000,
    );
    const before = clientDescriptors();
    const names: Call[] = status === '200 OK' ? ['list', 'remove'] : ['list', 'put', 'remove', 'get'];
    for (const name of names)
      await t.rejects(calls[name](wire), {
        code: 'storage_permanent',
        message: new RegExp(`longer than ${maxResponseBytes} bytes`),
        hint: /check endpoint/,
      });
    while (clientDescriptors() > before) await systemClock.sleep(5);
    wire.close();
  });
