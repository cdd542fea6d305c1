import { cp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { openDirectory } from '../../examples/feeder/targets.ts';
import type { Problem } from '../../src/api/http/problem.ts';
import { loadSecrets } from '../../src/core/secrets.ts';
import { openWeatherDatabases } from '../../src/core/weather/open-reader.ts';
import type { WeatherReader } from '../../src/core/weather/reader.ts';
import { feedAll } from '../core/weather/feed-samples.ts';
import { clockAt } from '../core/weather/suite.ts';
import { shippedTemplates, startWeather } from './weather-harness.ts';

const directory = join(t.testdir({}), 'database');
const target = await openDirectory(directory);
await feedAll(target);
await target.close();
const clock = clockAt('2026-01-20T18:10:00Z');
const reader = await openWeatherDatabases({
  databases: [{ name: 'embedded', driver: 'pglite', schema: 'weather', directory }],
  secrets: await loadSecrets({ directory: null, env: {} }),
  clock,
});
t.teardown(() => reader.close());
const url = await startWeather(t, { reader, clock });

async function problemOf(response: Response): Promise<Problem> {
  return (await response.json()) as Problem;
}

t.test('everything that is wrong with a query is told at once', async (t) => {
  const response = await fetch(
    `${url}/alerts?zone=NYZ072,x&area=NY&limit=0&severity=&colour=red&event=a&event=b&office=%ZZ`,
  );
  t.equal(response.status, 400);
  t.equal(response.headers.get('content-type'), 'application/problem+json');
  const { code, findings = [] } = await problemOf(response);
  t.equal(code, 'invalid_parameter');
  t.same(findings.map(({ pointer, code: what }) => [pointer, what]).sort(), [
    ['area', 'conflicting_parameters'],
    ['colour', 'unknown_parameter'],
    ['event', 'repeated_parameter'],
    ['limit', 'invalid_value'],
    ['office', 'invalid_encoding'],
    ['severity', 'invalid_value'],
    ['zone', 'invalid_value'],
  ]);
});

t.test('each parameter is held to its range', async (t) => {
  for (const path of [
    '/observations?station=K',
    '/observations?units=SI',
    '/observations?station=KNYC,KLGA',
    '/observations?format=',
    '/observations?__proto__=1',
    '/current-conditions?station=A01,A02,A03,A04,A05,A06',
    '/current-conditions?maxAge=9',
    '/current-conditions?maxAge=361',
    `/alerts?zone=${Array.from({ length: 51 }, (_, n) => `NYZ${100 + n}`).join(',')}`,
    '/alerts?limit=501',
    '/alerts?limit=1e2',
    '/alerts?units=si',
    '/alerts?severity=bad',
    '/forecasts/hourly?hours=169',
    '/forecasts/hourly?location=OKX',
    '/forecasts/narrative?periods=29',
    '/forecast-discussions?office=OKXX',
    '/weather-stories?limit=21',
    '/convective-outlooks?day=9',
    '/convective-outlooks?geometry=yes',
    '/convective-outlooks?select=newest',
    '/convective-outlooks?hazard=fog',
    '/convective-outlooks/discussions?day=0',
  ]) {
    const response = await fetch(url + path);
    t.equal(response.status, 400, path);
    t.equal((await problemOf(response)).findings?.length, 1, path);
  }
});

t.test('edges of ranges, lists and letter case are taken', async (t) => {
  for (const path of [
    '/observations?',
    '/observations?station=KNYC&&',
    '/current-conditions?station=knyc,klga,KNYC&maxAge=360',
    '/alerts?severity=SEVERE,minor&event=flash%20flood+warning&limit=500',
    '/forecasts/hourly?location=okx%2F33%2C35&hours=168',
    '/convective-outlooks?day=8&select=effective&geometry=false&hazard=hail,wind',
  ])
    t.equal((await fetch(url + path)).status, 200, path);
  const unknown = await fetch(`${url}/observations?station=KZZZ`);
  t.same([unknown.status, await unknown.json()], [200, { data: null }]);
});

t.test('a form that is not offered is 406 and told what is', async (t) => {
  for (const [query, accept] of [
    ['?format=yaml', '*/*'],
    ['', 'image/png'],
  ] as const) {
    const response = await fetch(`${url}/observations${query}`, { headers: { accept } });
    const { code, detail } = await problemOf(response);
    t.same([response.status, code], [406, 'unsupported_format']);
    t.match(detail, 'application/json');
  }
});

t.test('answers tell how long they serve and how to ask again', async (t) => {
  const cases: [string, number, boolean][] = [
    ['/observations?station=KNYC', 60, true],
    ['/observations?station=KZZZ', 15, false],
    ['/current-conditions?station=KNYC&maxAge=360', 60, true],
    ['/alerts', 15, false],
    ['/forecasts/hourly', 300, true],
    ['/forecasts/narrative', 300, true],
    ['/forecast-discussions', 120, true],
    ['/weather-stories', 180, true],
    ['/convective-outlooks', 120, true],
    ['/convective-outlooks/discussions', 120, true],
  ];
  for (const [path, maxAge, dated] of cases) {
    const { headers } = await fetch(url + path);
    t.equal(headers.get('cache-control'), `public, max-age=${maxAge}`, path);
    t.equal(headers.get('vary'), 'Accept');
    t.match(headers.get('etag'), /^"[\w-]{27}"$/);
    t.equal(headers.has('last-modified'), dated, path);
    const modified = Date.parse(headers.get('last-modified') ?? '');
    t.notOk(modified > clock.now().getTime(), 'never later than now');
  }
});

t.test('304 for the tag of the same form only, and tags beat dates', async (t) => {
  const path = `${url}/observations?station=KNYC`;
  const forms = ['application/json', 'application/xml', 'text/plain'];
  const tags = new Map<string, string>();
  for (const accept of forms)
    tags.set(accept, (await fetch(path, { headers: { accept } })).headers.get('etag') ?? '');
  t.equal(new Set(tags.values()).size, 3);
  for (const accept of forms)
    for (const [of, tag] of tags) {
      const response = await fetch(path, { headers: { accept, 'if-none-match': `"x", W/${tag}` } });
      t.equal(response.status, of === accept ? 304 : 200, `${accept} with the tag of ${of}`);
      t.equal(response.headers.get('etag'), tags.get(accept));
      if (of === accept) t.equal(await response.text(), '');
    }
  const tomorrow = 'Fri, 01 Jan 2027 00:00:00 GMT';
  const status = async (headers: Record<string, string>): Promise<number> =>
    (await fetch(path, { headers })).status;
  t.equal(await status({ 'if-none-match': '*' }), 304);
  t.equal(await status({ 'if-modified-since': tomorrow }), 304);
  t.equal(await status({ 'if-modified-since': 'Fri, 01 Jan 2010 00:00:00 GMT' }), 200);
  t.equal(await status({ 'if-modified-since': 'yesterday' }), 200);
  t.equal(await status({ 'if-none-match': '"other"', 'if-modified-since': tomorrow }), 200);
});

t.test('HEAD is GET without the body; other methods are refused', async (t) => {
  const path = `${url}/forecasts/hourly`;
  const [get, head] = [await fetch(path), await fetch(path, { method: 'HEAD' })];
  for (const name of ['etag', 'content-type', 'content-length', 'last-modified', 'cache-control'])
    t.equal(head.headers.get(name), get.headers.get(name), name);
  t.equal(await head.text(), '');
  const post = await fetch(path, { method: 'POST' });
  t.same([post.status, post.headers.get('allow')], [405, 'GET, HEAD']);
});

t.test('templates may be changed, broken and removed while the reader runs', async (t) => {
  const templates = t.testdir({});
  await cp(shippedTemplates, templates, { recursive: true });
  const file = join(templates, 'observations.txt.tmpl');
  const url = await startWeather(t, { reader, clock, templates });
  const read = async (): Promise<[number, string]> => {
    const response = await fetch(`${url}/observations?format=text`);
    return [response.status, await response.text()];
  };
  t.match((await read())[1], 'Temperature');
  await writeFile(file, 'station <%= data.station.id %>');
  t.match(await read(), [200, /^station P/]);
  await writeFile(file, '<%= data.no.such.thing %>');
  const [status, text] = await read();
  t.equal(status, 500);
  t.match(JSON.parse(text), { code: 'template_error' });
  t.notMatch(text, templates, 'the path of the file is not told');
  await rm(file);
  t.match(await read(), [406, /unsupported_format/]);
  t.equal((await fetch(`${url}/observations`)).status, 200, 'JSON needs no template');
  await writeFile(file, 'back');
  t.same(await read(), [200, 'back']);
});

t.test('identical reads share one query, and what was rendered is kept for a while', async (t) => {
  let reads = 0;
  let now = 0;
  const counting: WeatherReader = {
    ...reader,
    observations: (query) => {
      reads += 1;
      return reader.observations(query);
    },
  };
  const ticking = { ...clock, monotonic: () => now };
  const url = await startWeather(t, { reader: counting, clock: ticking, cacheMs: 1000 });
  const path = `${url}/observations?station=KNYC`;
  const bodies = await Promise.all(Array.from({ length: 20 }, async () => (await fetch(path)).text()));
  t.equal(reads, 1);
  t.equal(new Set(bodies).size, 1);
  t.equal((await fetch(`${url}/observations?units=si&station=knyc`)).status, 200);
  t.equal(reads, 1, 'the same question in other words');
  const hot = await fetch(path, { method: 'HEAD' });
  t.match(hot.headers.get('x-request-id'), /^[0-9a-f-]{36}$/);
  t.equal(hot.headers.get('x-content-type-options'), 'nosniff');
  const tag = hot.headers.get('etag') ?? '';
  t.equal((await fetch(path, { headers: { 'if-none-match': tag } })).status, 304);
  t.equal((await fetch(path, { method: 'POST' })).status, 405);
  t.equal((await fetch(path, { headers: { accept: 'image/png' } })).status, 406);
  t.equal(reads, 1);
  now = 1000;
  await (await fetch(path)).text();
  t.equal(reads, 2);
});

t.test('hot reads are logged and counted like all others', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const note = (fields: object): void => void lines.push(fields as Record<string, unknown>);
  const log = { debug: note, info: note, warn: note, error: note };
  const url = await startWeather(t, { reader, clock, cacheMs: 1000, log });
  await (await fetch(`${url}/alerts?limit=5`)).text();
  await (await fetch(`${url}/alerts?limit=5`)).text();
  while (lines.length < 2) await new Promise((resolve) => setImmediate(resolve));
  const plain = lines.map((line) => ({ ...line, request_id: null, ms: null }));
  t.same(plain[0], plain[1]);
  t.match(plain[0], { method: 'GET', route: '/alerts', path: '/alerts', client: '127.0.0.1', status: 200 });
});

t.test('a target that is no path is refused and harms nothing', async (t) => {
  const { port } = new URL(url);
  const status = await new Promise((resolve, reject) => {
    httpRequest({ port, path: '/observations?%', host: '127.0.0.1' }, (res) => {
      res.resume();
      resolve(res.statusCode);
    })
      .once('error', reject)
      .end();
  });
  t.equal(status, 400);
});
