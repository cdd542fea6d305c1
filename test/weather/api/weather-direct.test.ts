import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import net from 'node:net';
import type { Test } from 'tap';
import t from 'tap';
import { createHttpApp } from '../../../src/api/http/http-app.ts';
import { createMetrics, type Metrics, recordRequests } from '../../../src/api/metrics/metrics.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { withDirectReads } from '../../../src/weather/api/direct-reads.ts';
import { readerRoutes } from '../../../src/weather/reader-app.ts';
import { feedAll } from '../feed-samples.ts';
import { placeRows } from '../place-rows.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { clockAt } from '../suite.ts';
import { type WeatherHarness, weatherPorts } from './weather-harness.ts';
import { readerThat } from './weather-reader-stub.ts';

const shared = await sharedPglite();
t.teardown(() => shared.close());
await feedAll(await shared.openTarget());
await (await shared.openTarget()).run(placeRows);
const clock = clockAt('2026-01-20T18:10:00Z');
const reader = await shared.openReader(clock);

interface Way {
  port: number;
  lines: Record<string, unknown>[];
  metrics: Metrics;
}

/** The same application twice: with the direct path, and without. */
async function bothWays(t: Test, settings: Omit<WeatherHarness, 'clock' | 'log'>): Promise<[Way, Way]> {
  const open = async (direct: boolean): Promise<Way> => {
    const lines: Record<string, unknown>[] = [];
    const note = (fields: object, message: string): void => void lines.push({ ...fields, message });
    const log = { debug: note, info: note, warn: note, error: note };
    const metrics = createMetrics({ version: '0', nodeVersion: '0', pipelineIds: [] });
    const ports = { ...weatherPorts({ ...settings, clock, log }), metrics };
    const app = createHttpApp(readerRoutes, ports, { observers: [recordRequests(metrics, clock)] });
    const listener: RequestListener = direct ? withDirectReads(app, ports) : app;
    const server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    return { port: (server.address() as AddressInfo).port, lines, metrics };
  };
  return [await open(true), await open(false)];
}

/** All bytes of the response to a request that closes the connection. */
async function exchange(port: number, sent: string): Promise<string> {
  const socket = net.connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.write(sent);
  await once(socket, 'close');
  return Buffer.concat(chunks).toString('latin1');
}

/** Removes the parts that differ between requests: the id, everywhere, and the date. */
function comparable(answer: string): string {
  return answer
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/^Date: .*\r$/gm, 'Date: NOW\r');
}

async function counted({ metrics }: Way): Promise<string[]> {
  const all = await metrics.text();
  return all.split('\n').filter((line) => /^waybill_http_(requests_total|\w+_count)\{/.test(line));
}

/** Each line of the log without the parts that differ between requests, once there are enough. */
async function logged({ lines }: Way, count: number): Promise<object[]> {
  while (lines.length < count) await new Promise((resolve) => setImmediate(resolve));
  return lines.map((line) => ({ ...line, request_id: null, err: null }));
}

/** Sends each request to both servers, and expects the same from them: bytes, log lines, counters. */
async function expectAlike(t: Test, ways: readonly [Way, Way], requests: readonly string[]): Promise<void> {
  for (const [index, request] of requests.entries()) {
    const [direct, plain] = await Promise.all(ways.map(({ port }) => exchange(port, request)));
    t.match(plain, /^HTTP\/1\.1 [2-5]\d\d /, request);
    t.equal(comparable(direct ?? ''), comparable(plain ?? ''), request);
    // In turn, so that lines of two requests are not compared with each other.
    const [here, there] = await Promise.all(ways.map((way) => logged(way, index + 1)));
    t.same(here?.slice(index), there?.slice(index), request);
  }
  const [direct, plain] = await Promise.all(ways.map(counted));
  t.ok((plain?.length ?? 0) > 0);
  t.same(direct, plain, 'the counters');
}

function asked(target: string, { method = 'GET', headers = [] as string[], body = '' } = {}): string {
  return [`${method} ${target} HTTP/1.1`, 'Host: a', 'Connection: close', ...headers, '', body].join('\r\n');
}

const targets = [
  '/observations',
  '/observations?station=KNYC',
  '/observations?station=KNYC,KBFI&units=us',
  '/observations?station=KNYC&format=xml',
  '/observations?station=KNYC&format=text',
  '/observations?station=KNYC&format=csv',
  '/observations?point=40.78,-73.97',
  '/observations/history?station=KNYC&limit=1',
  '/current-conditions?station=KNYC',
  '/alerts?limit=3',
  '/alerts?point=40.78,-73.97&format=geojson',
  '/alerts/urn%3Anone',
  '/forecasts/hourly?location=OKX/33,35&hours=3',
  '/forecasts/narrative?location=OKX/33,35',
  '/forecast-discussions?office=OKX',
  '/weather-stories?office=OKX',
  '/convective-outlooks?geometry=false',
  '/convective-outlooks/discussions',
  '/stations?near=40.78,-73.97',
  '/observations?station=none',
  '/observations?colour=red&station=&format=xml',
  '/observations?colour=red&format=text',
  '/observations?station=KNYC&station=KBFI',
  '/observations?%',
  '/observations?format=pdf',
  '/observations#fragment',
  '/observations?station=KNYC#fragment',
  '/observations/',
  '/Observations',
  '/%6fbservations',
  '//observations',
  '/observations?',
  'http://a/observations?station=KNYC',
  '/nothing',
  '*',
];

const variations = [
  {},
  { method: 'HEAD' },
  { headers: ['Accept: application/xml'] },
  { headers: ['Accept: text/plain, */*;q=0.1', 'Accept-Encoding: gzip'] },
  { headers: ['Accept: image/png'] },
  { headers: ['If-None-Match: *'] },
  { headers: ['Origin: https://app.example.org', 'X-Forwarded-For: 192.0.2.1'] },
];

const oddities = [
  asked('/observations', { method: 'POST', headers: ['Content-Length: 0'] }),
  asked('/observations', { method: 'DELETE' }),
  asked('/observations', { method: 'OPTIONS' }),
  asked('/observations', {
    method: 'OPTIONS',
    headers: ['Origin: https://app.example.org', 'Access-Control-Request-Method: GET'],
  }),
  asked('/observations?station=KNYC', { headers: ['Content-Length: 4'], body: 'body' }),
  asked('/observations?station=KNYC', { headers: ['Host: b'] }),
  asked('/observations?station=KNYC', { headers: ['Expect: nothing'] }),
  'GET /observations?station=KNYC HTTP/1.0\r\n\r\n',
];

for (const [name, settings] of Object.entries({
  'stored responses': { cacheMs: 1000 },
  'uncached, and readable by pages of other origins': { cors: { origins: ['https://app.example.org'] } },
}))
  t.test(`the direct path answers, logs and counts like express: ${name}`, async (t) => {
    const ways = await bothWays(t, { reader, ...settings });
    const varied = ['/observations?station=KNYC', '/alerts?limit=3', '/observations?colour=red', '/nothing'];
    const requests = [
      ...targets.map((target) => asked(target)),
      ...varied.flatMap((target) => variations.map((variation) => asked(target, variation))),
    ];
    await expectAlike(t, ways, [...requests, ...oddities]);
  });

t.test('also below a base path', async (t) => {
  const ways = await bothWays(t, { reader, basePath: '/weather/v1' });
  const below = ['', '/weather/v1', '/weather', '/Weather/V1'];
  await expectAlike(
    t,
    ways,
    below.flatMap((base) => [asked(`${base}/observations?station=KNYC`), asked(`${base}/alerts?limit=x`)]),
  );
});

t.test('also if a read fails', async (t) => {
  const failures: Record<string, Error> = {
    away: new WaybillError('database_unavailable', 'the database "a" cannot be reached (ECONNREFUSED)', {
      cause: new Error('refused'),
    }),
    shape: new WaybillError('schema_mismatch', 'the tables do not have the shape of the contract (42P01)'),
    defect: new TypeError('a defect'),
  };
  for (const [name, error] of Object.entries(failures)) {
    const ways = await bothWays(t, { reader: readerThat(() => Promise.reject(error)) });
    const requests = variations.map((variation) => asked(`/alerts?event=${name}`, variation));
    await expectAlike(t, ways, requests);
  }
});

t.test('also if a client disconnects before the answer', async (t) => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  let reading = 0;
  const slow = readerThat(async () => {
    reading += 1;
    await held;
    return { data: null, lastModified: null };
  });
  const ways = await bothWays(t, { reader: slow });
  const clients = ways.map(({ port }) => net.connect(port, '127.0.0.1'));
  for (const client of clients) client.write(asked('/alerts'));
  while (reading < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const client of clients) client.destroy();
  const [direct, plain] = await Promise.all(ways.map((way) => logged(way, 1)));
  t.match(plain, [{ message: 'request aborted by the client', status: null, route: '/alerts' }]);
  const withoutTime = (lines: object[] | undefined): object[] =>
    (lines ?? []).map((line) => ({ ...line, ms: null }));
  t.same(withoutTime(direct), withoutTime(plain));
  release();
  t.same(...((await Promise.all(ways.map(counted))) as [string[], string[]]));
});
