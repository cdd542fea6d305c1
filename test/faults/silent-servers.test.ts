import dns from 'node:dns';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import pMap from 'p-map';
import t, { type Test } from 'tap';
import { fetchJson } from '../../src/api/publishers/fetch-json.ts';
import { revisionMetadata } from '../../src/cli/commands/remote/git-revision.ts';
import { Connection } from '../../src/client/connection.ts';
import { type Clock, systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { deliver } from '../../src/core/notify/deliver.ts';
import { eventOf } from '../../src/core/notify/event.ts';
import { newEventId } from '../../src/core/notify/event-id.ts';
import type { Sink } from '../../src/core/notify/sink.ts';
import { emailSink } from '../../src/core/notify/sinks/email.ts';
import { postSink } from '../../src/core/notify/sinks/post.ts';
import { redisSink } from '../../src/core/notify/sinks/redis.ts';
import { testOccurrence } from '../../src/core/publish/results/occurrences.ts';
import { BucketClient } from '../../src/core/storage/s3/s3-client.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import { openSpanExport } from '../../src/core/tracing/open-telemetry.ts';
import { openPostgres } from '../../src/weather/database/postgres.ts';
import { request } from '../../src/weather/feed/sources/http-client.ts';
import { openServer } from '../../src/weather/feed/tables/open-server.ts';
import { RedisLink } from '../../src/workers/bullmq/link.ts';
import { freePort } from '../services/free-port.ts';
import { makeKeys, noSecrets, sftpLocationOf, type SftpServer } from '../services/sshd.ts';
import { isExhaustive, sampleOf } from '../support/sampling.ts';

/*
 * Every wait for another process ends with an error that names the server, and leaves no connection. The
 * same applies to every connection that the server rejects or closes. The waits are the rows of the table in
 * docs/design/waits.md. SFTP and S3 have more tests of their own.
 */

const connections = isExhaustive ? 500 : 20;
const limitMs = 200;

/** The server's ends of the connections. A server that does not read does not notice that the client left. */
const served = new Set<net.Socket>();
const clientDescriptors = (): number => readdirSync('/proc/self/fd').length - served.size;

/** Time limits that cannot be configured, compressed. */
const impatient: Clock = {
  ...systemClock,
  timeout: (ms, callback, options) => systemClock.timeout(Math.min(ms, limitMs), callback, options),
};

/** Serves one connection of a server that becomes silent. */
type Serve = (socket: net.Socket) => void;

const anywhere: Record<string, Serve> = {
  'after it accepted the connection': (socket) => void socket.resume(),
  'without reading': (socket) => void socket.pause(),
  'half open': (socket) => void socket.resume().end(),
};

const says =
  (text: string | Buffer): Serve =>
  (socket) =>
    void socket.resume().write(text);

const http = {
  'in the middle of the head': says('HTTP/1.1 200 OK\r\ncontent-le'),
  'in the middle of an error': says('HTTP/1.1 503 Slow\r\ncontent-length: 1000\r\n\r\n<begun'),
};
const httpBody = {
  ...http,
  'in the middle of the answer': says('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"begun'),
};

/** Answers the first `answered` INFO commands. */
const redis =
  (answered: number, last = ''): Serve =>
  (socket) => {
    let asked = 0;
    socket.on('data', (bytes) => {
      for (const command of bytes.toString().match(/\n(hello|client|info|publish)\r\n/gi) ?? []) {
        if (/hello/i.test(command)) socket.write('%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n');
        else if (/client/i.test(command)) socket.write('+OK\r\n');
        else if ((asked += 1) <= answered) socket.write('$17\r\nredis_version:7.2\r\n');
        else socket.write(last);
      }
    });
  };

const ready = Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I', 'latin1');

interface Wait {
  /** The row of the table in docs/design/waits.md. */
  row: string;
  /** The points at which the server becomes silent. */
  silences: Record<string, Serve>;
  /** Fails with the error of the wait. */
  fail: (host: string, port: number) => Promise<unknown>;
  message: RegExp;
}

async function delivered(sink: Sink): Promise<void> {
  const never = new AbortController().signal;
  const event = eventOf(testOccurrence('n'), newEventId(), new Date());
  const options = { clock: systemClock, signal: never, stopping: AbortSignal.abort() };
  try {
    const { reason } = await deliver(sink, event, options);
    if (reason !== null) throw new Error(reason);
  } finally {
    await sink.close();
  }
}

const primary = {
  ...{ name: 'primary', driver: 'postgres' as const, schema: 'weather', urlEnv: 'URL', poolSize: 1 },
  ...{ statementTimeoutMs: limitMs, lockTimeoutMs: limitMs, connectTimeoutMs: limitMs },
};

const keys = await makeKeys(t.testdir({}));
const sftpLocation = {
  ...sftpLocationOf(
    { host: 'silent.example', port: 9, user: 'publisher', ...keys } as unknown as SftpServer,
    '/srv',
  ),
  hostKeyPolicy: 'off' as const,
};

const storageWaits: Wait[] = [
  {
    row: 'SFTP: DNS, connection, key exchange, login',
    silences: {
      ...anywhere,
      'in the middle of the greeting': says('SSH-2.0-Open'),
      'after the greeting': says('SSH-2.0-OpenSSH_10.0\r\n'),
    },
    fail: (host, port) =>
      sftpStorage({ ...sftpLocation, host, port }, { clock: impatient, log: silentLog, secrets: noSecrets }),
    message: /^sftp:.*: no (answer within 30 s|connection)/,
  },
  {
    row: 'S3: request sent, answer, body of an answer',
    silences: { ...anywhere, ...http },
    fail: async (host, port) => {
      const client = new BucketClient({
        location: {
          ...{ backend: 's3', bucket: 'maps', prefix: '', region: 'us-east-1', pathStyle: true },
          ...{ endpoint: `http://${host}:${port}`, credentials: null },
        },
        credentials: { accessKeyId: 'id', secretAccessKey: 'secret' },
        clock: systemClock,
        silenceMs: limitMs,
      });
      await client.head('key').finally(() => client.close());
    },
    message: /^s3:.*: /,
  },
];

const waits: Wait[] = [
  {
    row: 'Webhook, chat: one try',
    silences: { ...anywhere, ...http },
    fail: (host, port) =>
      delivered(
        postSink({
          ...{ url: `http://${host}:${port}/`, timeoutMs: limitMs, allowAddresses: [], concurrency: 4 },
          ...{ clock: systemClock, compose: () => ({ body: '{}' }) },
        }),
      ),
    message: /no answer within 200 ms|cannot be reached|answered 503/,
  },
  {
    row: 'SMTP: one try',
    silences: {
      ...anywhere,
      'in the middle of the greeting': says('220-mail'),
      'after the greeting': says('220 mail\r\n'),
    },
    fail: (host, port) =>
      delivered(
        emailSink({
          ...{ host, port, tls: 'none', login: null, from: 'a@example.org', to: ['b@example.org'] },
          ...{ subject: null, consoleUrl: null, timeoutMs: limitMs },
        }),
      ),
    message: /no answer within 200 ms|the mail server/,
  },
  {
    row: 'Redis notifier: one try',
    silences: { ...anywhere, 'after the login': redis(1), 'in the middle of an answer': redis(1, ':') },
    fail: (host, port) =>
      delivered(redisSink({ url: `redis://${host}:${port}`, channel: 'events', timeoutMs: limitMs })),
    message: /no answer within 200 ms|Redis cannot be reached/,
  },
  {
    row: 'Redis: first connection',
    silences: { ...anywhere, 'in the middle of an answer': redis(0, '$1000\r\nredis') },
    fail: (host, port) =>
      RedisLink.open({
        ...{ url: `redis://${host}:${port}`, urlEnv: 'REDIS_URL', prefix: 'waybill' },
        ...{ log: silentLog, clock: systemClock },
        withinMs: limitMs,
      }),
    message: /^Redis \(REDIS_URL\) cannot be reached/,
  },
  {
    row: 'Redis: command',
    silences: { 'after the login': redis(1) },
    fail: (host, port) =>
      RedisLink.open({
        ...{ url: `redis://${host}:${port}`, urlEnv: 'REDIS_URL', prefix: 'waybill' },
        ...{ log: silentLog, clock: systemClock },
        withinMs: 10_000,
      }),
    message: /^the queue of this daemon cannot be reached/,
  },
  {
    row: 'PostgreSQL: read of the weather',
    silences: { ...anywhere, 'after the login': says(ready) },
    fail: async (host, port) => {
      const database = openPostgres(primary, `postgres://user@${host}:${port}/db`, { deadlineMs: limitMs });
      await database.probe().finally(() => database.close());
    },
    message: /primary/,
  },
  {
    row: 'PostgreSQL: statement of the feeder',
    silences: {
      ...anywhere,
      'after the login': says(ready),
      'in the middle of an answer': says(Buffer.concat([ready, Buffer.from('T\0')])),
    },
    fail: async (host, port) => {
      const limits = { clock: systemClock, connectSeconds: limitMs / 1000, answerMs: limitMs };
      const target = await openServer(`postgres://user@${host}:${port}/db`, 'weather', limits);
      await target.run('select 1').finally(() => target.close());
    },
    message: /CONNECT_TIMEOUT|CONNECTION_CLOSED|no answer/,
  },
  {
    row: 'OTLP: one export',
    silences: { ...anywhere, ...http },
    fail: (host, port) =>
      new Promise((_, reject) => {
        const spans = openSpanExport({
          ...{ endpoint: `http://${host}:${port}`, headers: {}, serviceName: null, version: '1' },
          ...{ limits: {}, exportTimeoutMs: limitMs },
          onHealth: (failure) => failure !== null && reject(new Error(failure)),
        });
        spans.add({
          ...{ traceId: '1'.repeat(32), spanId: '2'.repeat(16), isSampled: true },
          ...{ name: 'run', kind: 'internal', parent: null, startedAt: 1, endedAt: 2, attributes: {} },
          error: null,
        });
        void spans.close();
      }),
    message: /the collector/,
  },
  {
    row: 'OIDC: discovery, keys of an issuer',
    silences: { ...anywhere, ...httpBody },
    fail: (host, port) => fetchJson(new URL(`http://${host}:${port}/keys`), impatient),
    message: /^http:\/\/127\.0\.0\.1:\d+ (did not answer within 10 s|cannot be reached|answered 503)/,
  },
  {
    row: 'Weather service: one request',
    silences: { ...anywhere, ...httpBody },
    fail: (host, port) =>
      request(`http://${host}:${port}/`, null, {
        ...{ clock: systemClock, userAgent: 'test', timeoutMs: limitMs, maxBody: 10_000 },
      }),
    message: /no answer within 200 ms|other side closed|answered 503|the server/,
  },
  {
    row: 'Daemon, from `push`: connection, answer, body',
    silences: { ...anywhere, ...httpBody },
    fail: async (host, port) => {
      const connection = new Connection({
        ...{ url: `http://${host}:${port}`, idleMs: limitMs, answerMs: limitMs },
        patience: { tries: 1, forMs: 0 },
      });
      await connection.requestJson({ method: 'POST', path: 'v1', body: zeros });
    },
    message: /^http:\/\/127\.0\.0\.1:\d+: |^the connection to http/,
  },
];

async function* zeros(): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < 40; index += 1) yield Buffer.alloc(65_536);
}

async function startSilent(t: Test, serve: Serve): Promise<number> {
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    served.add(socket);
    socket.on('close', () => served.delete(socket)).on('error', () => socket.destroy());
    serve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    for (const socket of served) socket.destroy();
    server.close();
    await once(server, 'close');
    while (served.size > 0) await systemClock.sleep(5);
  });
  return (server.address() as net.AddressInfo).port;
}

/** Fails `connections` times, and waits for the descriptors to be closed. Returns the distinct messages. */
async function failures(fail: () => Promise<unknown>, settled: () => boolean): Promise<Set<string>> {
  // Loads everything that is loaded on first use.
  await fail().catch(() => undefined);
  while (!settled()) await systemClock.sleep(5);
  const before = clientDescriptors();
  const each = Array.from({ length: connections }, (_, index) => index);
  const failureOf = (): Promise<string> =>
    fail().then(
      () => 'no failure',
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  const messages = await pMap(each, failureOf, { concurrency: 20 });
  while (clientDescriptors() > before) await systemClock.sleep(5);
  return new Set(messages);
}

/** How a server ends a connection by itself. null: nothing listens. */
const ends: Record<string, Serve | null> = {
  refuses: null,
  resets: (socket) => void socket.resetAndDestroy(),
  closes: (socket) => void socket.destroy(),
  'sends something else over': (socket) => void socket.resume().end('220 nonsense\r\n\r\n'),
};

for (const { row, silences, fail, message } of [...storageWaits, ...waits])
  t.test(row, async (t) => {
    for (const [when, serve] of Object.entries(silences))
      await t.test(`a server that goes silent ${when} fails it and leaves no connection`, async (t) => {
        const port = await startSilent(t, serve);
        const isSettled = (): boolean => true;
        for (const failure of await failures(() => fail('127.0.0.1', port), isSettled))
          t.match(failure, message);
      });
    // A Redis command waits for the first connection, which has its own row.
    const kinds = row === 'Redis: command' ? [] : Object.entries(ends);
    for (const [what, serve] of isExhaustive ? kinds : sampleOf(kinds, 1, row))
      await t.test(`a server that ${what} the connection fails it and leaves no connection`, async (t) => {
        const port = serve === null ? await freePort() : await startSilent(t, serve);
        // A socket that the server destroyed stays in the set slightly longer than its descriptor.
        const isSettled = (): boolean => served.size === 0;
        const found = await failures(() => fail('127.0.0.1', port), isSettled);
        t.notOk(found.has('no failure'));
        t.comment([...found].join('; '));
      });
  });

t.test('an unresponsive name server fails every wait', async (t) => {
  const lookup = t.capture(dns, 'lookup', () => undefined);
  syncBuiltinESMExports();
  t.teardown(() => {
    lookup.restore();
    syncBuiltinESMExports();
  });
  const named = [...storageWaits, ...waits].filter(({ row }) => row !== 'Redis: command');
  await Promise.all(
    named.map(async ({ row, fail }) => {
      await t.rejects(fail('silent.example', 9), row);
    }),
  );
  t.ok(lookup().length >= waits.length - 1, 'they waited for the name');
});

t.test('a hanging git is killed, and the manifest has no revision', async (t) => {
  const bin = t.testdir({ git: '#!/bin/sh\ntrap "" TERM\necho $$ > "$HOME/pid"\nexec sleep 1000\n' });
  chmodSync(path.join(bin, 'git'), 0o755);
  const environment = { PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: bin };
  t.same(await revisionMetadata(bin, { git: true }, environment), {});
  const pid = Number(readFileSync(path.join(bin, 'pid'), 'utf8'));
  t.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
});

t.test('docs/design/waits.md lists these waits', async (t) => {
  const table = readFileSync('docs/design/waits.md', 'utf8').matchAll(
    /^\| (\S.*?) +\|.*\| silent-servers +\|$/gm,
  );
  t.same(
    Array.from(table, ([, row]) => row).sort(),
    [...waits.map(({ row }) => row), 'DNS of all of them', 'git: commit and branch'].sort(),
  );
});
