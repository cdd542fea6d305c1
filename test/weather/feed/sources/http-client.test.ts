import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { type Clock, systemClock } from '../../../../src/core/lib/clock.ts';
import {
  type ClientOptions,
  createClient,
  type Get,
} from '../../../../src/weather/feed/sources/http-client.ts';
import { type NwsServer, refusing, startNws } from '../nws-server.ts';

/** Time that passes only while a caller waits for it. */
function patientClock(): Clock & { pauses: number[] } {
  const pauses: number[] = [];
  let passed = 0;
  return {
    ...systemClock,
    pauses,
    monotonic: () => passed,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      pauses.push(ms);
      passed += ms;
    },
  };
}

const at = new Date('2026-09-13T06:00:00Z');
const path = '/stations/KNYC/observations?limit=12';

async function served(
  t: Test,
  changes: Partial<ClientOptions> = {},
): Promise<{ server: NwsServer; get: Get; clock: ReturnType<typeof patientClock>; url: string }> {
  const server = await startNws({ at, documents: new Map([[path, '{"a": 1}']]) });
  t.teardown(() => server.close());
  const clock = patientClock();
  const get = createClient({
    clock,
    userAgent: 'waybill tests (ops@example.org)',
    timeoutMs: 5000,
    maxBody: 10_000,
    concurrency: 2,
    random: () => 0.5,
    ...changes,
  });
  return { server, get, clock, url: `${server.url}${path}` };
}

t.test('a document is requested with a contact, and loaded again only if it changed', async (t) => {
  const { server, get, url } = await served(t);
  const first = await get(url, null);
  t.match(first, {
    kind: 'fresh',
    text: '{"a": 1}',
    at,
    validators: { etag: null, lastModified: at.toUTCString() },
  });
  t.match(server.asked[0]?.headers, { 'user-agent': 'waybill tests (ops@example.org)', accept: /geo\+json/ });
  const validators = first.kind === 'fresh' ? first.validators : null;
  t.match(await get(url, validators), { kind: 'same', at });
  t.equal(server.asked[1]?.headers['if-modified-since'], at.toUTCString());
  server.show({ at: new Date('2026-09-13T07:00:00Z'), documents: new Map([[path, '{"a": 2}']]) });
  t.match(await get(url, validators), { kind: 'fresh', text: '{"a": 2}' });
  t.match(await get(url, { etag: '"other"', lastModified: null }), { kind: 'fresh' });
  t.equal(server.asked[3]?.headers['if-none-match'], '"other"');
});

t.test('retries temporary failures of a server, with doubling pauses', async (t) => {
  const { server, get, clock, url } = await served(t);
  server.failNext(path, refusing(500), refusing(503), (response) => response.destroy());
  t.match(await get(url, null), { kind: 'fresh' });
  t.same(clock.pauses, [500, 1000, 2000]);
  server.failNext(path, refusing(500), refusing(500), refusing(500), refusing(502));
  await t.rejects(get(url, null), { name: 'RequestFailed', message: 'the server answered 502', retry: true });
  t.match(await get(url, null), { kind: 'fresh' }, 'a later round succeeds');
});

t.test('every request waits as long as the server requests', async (t) => {
  const { server, get, clock, url } = await served(t, { concurrency: 1 });
  server.failNext(path, refusing(429, { 'retry-after': '120' }));
  await Promise.all([get(url, null), get(url, null)]);
  t.same(clock.pauses, [120_000], 'the second one sends no request meanwhile');
  const until = new Date(Date.now() + 30_000).toUTCString();
  server.failNext(path, refusing(503, { 'retry-after': until }));
  await get(url, null);
  t.ok((clock.pauses[1] ?? 0) > 20_000 && (clock.pauses[1] ?? 0) <= 30_000, 'also as a date');
  server.failNext(path, refusing(429, { 'retry-after': '86400' }));
  await t.rejects(get(url, null), { message: 'the server answered 429' });
  await get(url, null);
  t.equal(clock.pauses[2], 300_000, 'more than five minutes waits for a later round');
});

t.test('reports errors immediately that a retry cannot fix', async (t) => {
  const { server, get, clock, url } = await served(t);
  const problem = JSON.stringify({ title: 'Invalid\n  Station', detail: 'x' });
  const cases: [string, Parameters<typeof server.failNext>[1], RegExp][] = [
    [
      '404',
      refusing(404, { 'content-type': 'application/problem+json' }, problem),
      /^the server answered 404: Invalid Station$/,
    ],
    ['403', refusing(403), /^the server answered 403 \(does user_agent of weather\.feed\.nws name a contact/],
    ['a redirect', refusing(301, { location: 'http://127.0.0.1:1/' }), /^the server answered 301$/],
    ['a large answer', refusing(200, {}, 'x'.repeat(10_001)), /^the answer is larger than 10000 bytes/],
    [
      'an answer that grows',
      (response) =>
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x'.repeat(1_000_000))),
      /^the answer is larger than 10000 bytes/,
    ],
    [
      'no UTF-8',
      (response) => response.writeHead(200).end(Buffer.from([0x7b, 0xff])),
      /^the answer is not UTF-8$/,
    ],
  ];
  for (const [name, answer, reason] of cases) {
    server.failNext(path, answer);
    await t.rejects(get(url, null), { message: reason, retry: false }, name);
  }
  t.same(clock.pauses, []);
});

t.test(
  'a request without an answer is abandoned after a timeout, and errors do not name its address',
  async (t) => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    t.teardown(() => silent.closeAllConnections());
    t.teardown(() => silent.close());
    const { get: getBriefly } = await served(t, { timeoutMs: 20 });
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    await t.rejects(getBriefly(url, null), { message: 'no answer within 20 ms' });
    const { get } = await served(t);
    await t.rejects(get('http://127.0.0.1:1/', null), { message: /cannot be reached/ });
    await t.rejects(get('http://nowhere.invalid/', null), {
      message: /^the name of the server is not known/,
    });
  },
);

t.test('limits concurrent requests, and sends none after the end', async (t) => {
  const stopping = new AbortController();
  const { server, get, url } = await served(t, { signal: stopping.signal });
  await Promise.all(Array.from({ length: 12 }, () => get(url, null)));
  t.equal(server.asked.length, 12);
  t.ok(server.maxAtOnce() <= 2, `${server.maxAtOnce()} concurrent requests`);
  stopping.abort(new Error('stopped'));
  await t.rejects(get(url, null), { message: 'stopped' });
  t.equal(server.asked.length, 12);
});

t.test("uses the server's time of a response, unless its clock is ahead", async (t) => {
  const { server, get, url } = await served(t);
  server.show({ at: new Date('2099-01-01T00:00:00Z'), documents: new Map([[path, '{}']]) });
  const { at: answered } = await get(url, null);
  t.ok(Math.abs(answered.getTime() - Date.now()) < 60_000);
});
