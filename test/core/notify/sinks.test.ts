import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { Redis } from 'ioredis';
import t from 'tap';
import { silentLog } from '../../../src/core/lib/log.ts';
import { type Event, eventOf } from '../../../src/core/notify/event.ts';
import { newEventId } from '../../../src/core/notify/event-id.ts';
import { fileSink } from '../../../src/core/notify/sinks/file.ts';
import { logSink } from '../../../src/core/notify/sinks/log-sink.ts';
import { redisSink } from '../../../src/core/notify/sinks/redis.ts';
import { testOccurrence } from '../../../src/core/publish/results/occurrences.ts';
import { startRedis } from '../../services/redis.ts';
import { deadPort } from './receiver.ts';

const never = new AbortController().signal;
const event = (id = 'n'): Event => eventOf(testOccurrence(id), newEventId(), new Date());
const lines = (file: string): Event[] =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Event);

t.test('log: writes the whole event under one key', async (t) => {
  const logged: object[] = [];
  const sink = logSink({ ...silentLog, info: (fields) => void logged.push(fields) });
  const one = event();
  t.same(await sink.send(one, never), { ok: true });
  t.same(logged, [{ event: one }]);
});

t.test(
  'file: writes one line per event to a file that only the owner can read and that can be rotated',
  async (t) => {
    const file = path.join(t.testdir(), 'events.jsonl');
    const sink = fileSink(file);
    const [a, b, c] = [event(), event(), event()];
    await sink.send(a, never);
    await sink.send(b, never);
    t.equal(statSync(file).mode & 0o777, 0o600);
    renameSync(file, `${file}.1`);
    await sink.send(c, never);
    t.same(lines(`${file}.1`), [a, b]);
    t.same(lines(file), [c]);
    chmodSync(file, 0o640);
    await sink.send(a, never);
    t.equal(statSync(file).mode & 0o777, 0o640, 'an existing file keeps its mode');
  },
);

t.test('file: lines of concurrent processes stay whole', async (t) => {
  const file = path.join(t.testdir(), 'events.jsonl');
  const program = `
    import { fileSink } from './src/core/notify/sinks/file.ts';
    const sink = fileSink(process.argv[1]);
    for (let index = 0; index < 300; index += 1)
      await sink.send({ id: process.pid + '.' + index, text: 'x'.repeat(index * 40) }, new AbortController().signal);
  `;
  const writers = Array.from({ length: 4 }, async () => {
    const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', program, file], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const [status] = (await once(child, 'close')) as [number];
    return status;
  });
  t.same(await Promise.all(writers), [0, 0, 0, 0]);
  t.equal(new Set(lines(file).map(({ id }) => id)).size, 1_200);
});

t.test('file: reports a failed write', async (t) => {
  const directory = t.testdir();
  mkdirSync(path.join(directory, 'dir'));
  t.match(await fileSink(path.join(directory, 'dir')).send(event(), never), {
    ok: false,
    reason: /EISDIR/,
    retry: false,
  });
  t.match(await fileSink(path.join(directory, 'no/file')).send(event(), never), {
    ok: false,
    reason: /ENOENT/,
  });
  t.match(await fileSink('/dev/full').send(event(), never), { ok: false, reason: /ENOSPC/, retry: true });
});

t.test('redis: subscribers get the event; reconnects after an outage of the server', async (t) => {
  const redis = await startRedis({ password: 'canary-password' });
  t.teardown(() => redis.close());
  const sink = redisSink({ url: redis.url, channel: 'waybill.events', timeoutMs: 5_000 });
  t.teardown(() => sink.close());
  const received: Event[] = [];
  const listen = async (): Promise<Redis> => {
    const client = new Redis(redis.url, { retryStrategy: () => null });
    client.on('error', () => undefined);
    client.on('message', (_channel, text: string) => void received.push(JSON.parse(text) as Event));
    await client.subscribe('waybill.events');
    t.teardown(() => client.disconnect());
    return client;
  };
  const first = await listen();
  const one = event();
  t.same(await sink.send(one, never), { ok: true });
  while (received.length < 1) await once(first, 'message').catch(() => undefined);
  t.same(received, [one]);

  await redis.stop('SIGKILL');
  const away = await sink.send(event(), never);
  t.match(away, { ok: false, retry: true });
  t.notMatch(JSON.stringify(away), /canary/);
  await redis.start();
  const second = await listen();
  const two = event();
  const arrived = once(second, 'message');
  t.same(await sink.send(two, never), { ok: true });
  await arrived;
  t.same(received.at(-1), two);
});

t.test('redis: an aborted delivery closes a connection that is still being made', async (t) => {
  const server = createServer();
  const accepted = once(server, 'connection');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const sink = redisSink({ url: `redis://127.0.0.1:${port}`, channel: 'c', timeoutMs: 600_000 });
  const stopping = new AbortController();
  const sent = sink.send(event(), stopping.signal);
  const [socket] = (await accepted) as [Socket];
  socket.resume();
  stopping.abort();
  await sink.close();
  await once(socket, 'close');
  t.match(await sent, { ok: false, retry: true });
});

t.test(
  'redis: reports a wrong password without repeating it, and an unreachable server without its URL',
  async (t) => {
    const redis = await startRedis({ password: 'right' });
    t.teardown(() => redis.close());
    const wrong = redisSink({ url: redis.url.replace('right', 'canary'), channel: 'c', timeoutMs: 5_000 });
    t.teardown(() => wrong.close());
    const refused = await wrong.send(event(), never);
    t.match(refused, { ok: false, reason: /WRONGPASS/, retry: false });
    const none = redisSink({
      url: `redis://:canary@127.0.0.1:${await deadPort()}`,
      channel: 'c',
      timeoutMs: 5_000,
    });
    t.teardown(() => none.close());
    const nobody = await none.send(event(), never);
    t.match(nobody, { ok: false, reason: 'Redis cannot be reached (ECONNREFUSED)', retry: true });
    t.notMatch(JSON.stringify([refused, nobody]), /canary/);
  },
);
