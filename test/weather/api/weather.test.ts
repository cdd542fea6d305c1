import { cp, rm, writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { XMLParser } from 'fast-xml-parser';
import t from 'tap';
import type { Problem } from '../../../src/api/http/answer/problem.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { WeatherReader } from '../../../src/weather/reader.ts';
import { xmllint } from '../../services/xmllint.ts';
import { feedAll } from '../feed-samples.ts';
import { placeRows } from '../place-rows.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { clockAt } from '../suite.ts';
import { shippedTemplates, startWeather } from './weather-harness.ts';
import { readerThat } from './weather-reader-stub.ts';

const shared = await sharedPglite();
t.teardown(() => shared.close());
await feedAll(await shared.openTarget());
await (await shared.openTarget()).run(placeRows);
const clock = clockAt('2026-01-20T18:10:00Z');
const reader = await shared.openReader(clock);
const url = await startWeather(t, { reader, clock });

async function problemOf(response: Response): Promise<Problem> {
  return (await response.json()) as Problem;
}

t.test('reports all errors of a query together', async (t) => {
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

t.test('checks the range of each parameter', async (t) => {
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
    `/observations?station=${Array.from({ length: 51 }, (_, n) => `A${100 + n}`).join(',')}`,
    '/observations?station=KNYC&point=40.78,-73.97',
    '/observations?radius=10',
    '/observations?maxAge=60',
    '/observations?point=40.78,-73.97&radius=501',
    '/observations?point=90.01,0',
    '/observations?point=0,180.01',
    '/observations?point=40.78',
    '/observations?point=40.78,-73.97,3',
    '/observations?point=4e1,-73.97',
    '/observations?point=NaN,-73.97',
    '/current-conditions?point=40.78,-73.97&station=KNYC',
    '/alerts?point=40.78,-73.97&zone=NYZ072',
    '/alerts?bbox=-74,41,-73,40',
    '/alerts?bbox=-181,40,-73,41',
    '/alerts?bbox=-74,40,-73',
    '/alerts/x%00y',
    '/alerts/x?format=',
    '/convective-outlooks?point=40.78;-73.97',
    '/forecasts/hourly?point=40.78,-73.97&location=OKX/33,35',
    '/forecasts/hourly?start=yesterday',
    '/forecasts/hourly?start=2026-01-20T18:00:00',
    '/forecasts/hourly?start=2026-01-20T18:00:00Z&end=2026-01-20T18:00:00Z',
    '/forecasts/hourly?start=2026-01-20T18:00:00Z&end=2026-01-27T18:00:01Z',
    '/forecasts/hourly?hours=3&end=2026-01-27T18:00:00Z',
    '/forecasts/narrative?radius=3',
    '/observations/history',
    '/observations/history?station=KNYC,KLGA',
    '/observations?station=KZZZ',
    '/current-conditions?station=KNYC,KZZZ&maxAge=360',
    '/observations/history?station=KZZZ',
    '/observations/history?station=KNYC&limit=10001',
    '/observations/history?station=KNYC&start=2026-02-30T00:00:00Z',
    '/observations/history?station=KNYC&start=2026-01-20T18:00:00Z&end=2026-01-19T18:00:00Z',
    '/observations/history?station=KNYC&start=2024-01-20T18:00:00Z&end=2026-01-19T18:00:00Z',
    '/stations?near=here',
    '/stations?state=New+York',
    '/stations?q=+',
    '/stations?limit=501',
    '/locations?bbox=40,-74,41,-73',
    '/offices?near=-73.97,40.78',
  ]) {
    const response = await fetch(url + path);
    t.equal(response.status, 400, path);
    t.equal((await problemOf(response)).findings?.length, 1, path);
  }
});

t.test('a rejected place names the expected form, an example and a suggestion', async (t) => {
  const messageOf = async (path: string): Promise<string> => {
    const { findings = [] } = await problemOf(await fetch(url + path));
    return `${findings[0]?.pointer} ${findings[0]?.message}`;
  };
  const point =
    'must be latitude (-90 to 90) and longitude (-180 to 180) in degrees with a comma between, such as';
  t.equal(await messageOf('/stations?near=91,0'), `near ${point} 40.78,-73.97`);
  t.equal(
    await messageOf('/alerts?point=-73.97,40.78'),
    `point ${point} 40.78,-73.97; latitude and longitude look swapped: 40.78,-73.97 is in the United States`,
  );
  t.match(await messageOf('/observations?point=144.8,13.5'), /13\.5,144\.8 is in the United States$/);
  t.match(
    await messageOf('/alerts?bbox=40.4,-74.3,41,-73.6'),
    /^bbox must be west, south, east and north .* longitudes come first: .* in the United States$/,
  );
  t.match(await messageOf('/alerts?bbox=-74,41,-73,40'), /its south \(41\) lies above its north \(40\)$/);
  t.match(
    await messageOf('/forecasts/hourly?start=2026-01-20T18:00:00+01:00'),
    /^start must be a moment .* write %2B for the \+ of a zone$/,
  );
  t.match(await messageOf('/observations/history?station=KZZZ'), /^station must name .* unknown: KZZZ$/);
  t.match(await messageOf('/observations/history'), /^station is required: a station, such as KNYC$/);
  t.match(await messageOf('/observations?radius=10'), /^radius needs "point"$/);
});

t.test(
  'names the parameter, the expected value and an example in a rejection, in the requested format',
  async (t) => {
    const range = (start: string, end: string): string =>
      `/observations/history?station=KNYC&start=${start}&end=${end}`;
    const refused: [path: string, pointer: string, code: string, said: RegExp][] = [
      ['/observations?station=KZZZ', 'station', 'unknown_station', /such as KNYC; unknown: KZZZ/],
      ['/observations?station=KNYC,KZZZ', 'station', 'unknown_station', /such as KNYC; unknown: KZZZ/],
      ['/observations/history?station=KZZZ', 'station', 'unknown_station', /such as KNYC; unknown: KZZZ/],
      ['/current-conditions?station=KZZZ', 'station', 'unknown_station', /such as KNYC; unknown: KZZZ/],
      ['/stations?near=91,0', 'near', 'invalid_value', /latitude \(-90 to 90\).* such as 40\.78,-73\.97/],
      [
        '/alerts?point=-73.97,40.78',
        'point',
        'invalid_value',
        /swapped: 40\.78,-73\.97 is in the United States/,
      ],
      [
        '/alerts?bbox=-74,41,-73,40',
        'bbox',
        'invalid_value',
        /such as .*south \(41\) lies above its north \(40\)/,
      ],
      [
        range('2026-01-20T18:00:00Z', '2026-01-19T18:00:00Z'),
        'end',
        'conflicting_parameters',
        /come after .*start.* \(2026-01-20T18:00:00Z\), such as 2027-01-21T18:00:00Z/,
      ],
      [
        range('2024-01-20T18:00:00Z', '2026-01-19T18:00:00Z'),
        'end',
        'conflicting_parameters',
        /up to 366 days after .*, such as 2025-01-20T18:00:00Z/,
      ],
    ];
    for (const [path, pointer, what, said] of refused)
      for (const format of ['json', 'xml', 'text', ...(path.startsWith('/stations') ? [] : ['geojson'])]) {
        const response = await fetch(`${url}${path}&format=${format}`);
        const body = await response.text();
        const type = response.headers.get('content-type')?.split(';', 1)[0];
        t.equal(response.status, 400, `${path} ${format}`);
        t.match(body, said, `${path} ${format}`);
        if (format === 'json' || format === 'geojson') {
          const { findings = [] } = JSON.parse(body) as Problem;
          t.same(
            [type, findings.map((one) => [one.pointer, one.code])],
            ['application/problem+json', [[pointer, what]]],
          );
        } else if (format === 'xml') {
          t.same([type, await xmllint(body)], ['application/problem+xml', ''], 'well-formed');
          t.match(body, `<pointer>${pointer}</pointer>`);
        } else t.same([type, body.split('\n', 1)[0]], ['text/plain', '400 Bad Request: invalid_parameter']);
      }
  },
);

t.test('an unknown alert is 404', async (t) => {
  const response = await fetch(`${url}/alerts/urn%3Anone`);
  t.same([response.status, (await problemOf(response)).code], [404, 'alert_not_found']);
});

t.test('returns each observation once in a paged history', async (t) => {
  const target = await shared.openTarget();
  await target.run(`insert into observations (station_id, observed_at, temperature_c)
    select 'KNYC', '2026-01-10T00:00Z'::timestamptz + n * interval '7 minutes 0.25 seconds', n / 10.0 from generate_series(0, 99) n`);
  const here = await startWeather(t, { reader: await shared.openReader(clock), clock });
  const range = 'start=2026-01-10T00:00:00Z&end=2026-01-11T00:00:00Z';
  const path = `/observations/history?station=knyc&${range}`;
  interface History {
    data: { start: string; end: string; observations: { observedAt: string; temperature: number }[] };
  }
  const whole = (await (await fetch(`${here}${path}`)).json()) as History;
  t.equal(whole.data.observations.length, 100);
  for (const limit of [1, 7, 50, 99, 100]) {
    const found: unknown[] = [];
    let pages = 0;
    for (let next: string | null = `${here}${path}&limit=${limit}`; next !== null; pages += 1) {
      const response: Response = await fetch(next);
      t.equal(response.status, 200);
      found.push(...((await response.json()) as History).data.observations);
      const link: string | undefined = /^<(.*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
      next = link === undefined ? null : new URL(link, next).href;
    }
    t.same(found, whole.data.observations);
    t.equal(pages, Math.ceil(100 / limit));
  }
  const xml = await fetch(`${here}${path}&limit=99`, { headers: { accept: 'application/xml' } });
  t.match(xml.headers.get('link'), /format=xml/, 'the next page has the same format');
  await shared.openTarget();
  await target.run("delete from observations where observed_at between '2026-01-10Z' and '2026-01-11Z'");
  await shared.openReader(clock);
});

t.test('accepts bounds of ranges, lists and any letter case', async (t) => {
  for (const path of [
    '/observations?',
    '/observations?station=KNYC&&',
    '/current-conditions?station=knyc,kmsp,KNYC&maxAge=360',
    '/alerts?severity=SEVERE,minor&event=flash%20flood+warning&limit=500',
    '/forecasts/hourly?location=okx%2F33%2C35&hours=168',
    '/convective-outlooks?day=8&select=effective&geometry=false&hazard=hail,wind',
    '/convective-outlooks?point=-90,+180',
    '/stations?near=90,-180&limit=500',
    '/stations?near=+40.78,+-73.97',
    '/stations?bbox=170,-90,-170,90',
    '/stations?bbox=0,0,0,0',
    '/alerts?bbox=-180,-90,180,90',
    '/observations?point=-75,10',
    '/observations/history?station=KNYC&start=2026-01-20T19:00:00%2B01:00&limit=10000',
    '/forecasts/hourly?start=2026-01-20T18:00:00Z&end=2026-01-27T18:00:00Z',
  ])
    t.equal((await fetch(url + path)).status, 200, path);
  const silent = await fetch(`${url}/observations?station=KEMP`);
  t.same([silent.status, await silent.json()], [200, { data: null }], 'a station without reports');
});

t.test('an unsupported format is 406 and lists the supported ones', async (t) => {
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

t.test('a refusal has the requested format', async (t) => {
  const json = 'application/problem+json';
  const xml = 'application/problem+xml; charset=utf-8';
  const text = 'text/plain; charset=utf-8';
  const matrix: [string, string, string][] = [
    ['', '*/*', json],
    ['&format=json', 'application/xml', json],
    ['&format=xml', '*/*', xml],
    ['&format=text', 'application/json', text],
    ['&format=geojson', 'application/xml', json],
    ['&format=csv', 'text/plain', json],
    ['&format=pdf', 'text/plain', text],
    ['', 'application/xml', xml],
    ['', 'application/problem+xml', xml],
    ['', 'text/xml;q=0.5, application/json;q=0.2', xml],
    ['', 'text/plain', text],
    ['', 'application/geo+json, text/plain;q=0.9', json],
    ['', 'text/html,application/xml;q=0.9,*/*;q=0.8', 'text/html; charset=utf-8'],
    ['', 'image/png', json],
  ];
  for (const [query, accept, type] of matrix) {
    const response = await fetch(`${url}/alerts?limit=0&%1B%0Ax=1${query}`, { headers: { accept } });
    const body = await response.text();
    t.same([response.status, response.headers.get('content-type')], [400, type], `${query} ${accept}`);
    t.equal(response.headers.get('vary'), 'Accept');
    t.equal(response.headers.get('content-length'), String(Buffer.byteLength(body)));
    t.match(body, 'must be a whole number from 1 to 500');
    if (type === text) {
      t.match(body, /^400 Bad Request: invalid_parameter\n/);
      t.match(body, /^- limit must be/m);
      t.match(body, /^- \?\?x is not a parameter/m, 'escapes line breaks of the query');
    }
    if (type !== xml) continue;
    t.equal(await xmllint(body), '');
    const { problem } = new XMLParser({ ignoreAttributes: false }).parse(body) as { problem: object };
    t.match(problem, {
      '@_xmlns': 'urn:ietf:rfc:7807',
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      code: 'invalid_parameter',
      retryable: false,
      findings: { i: [{ severity: 'error', pointer: 'limit' }, { pointer: 'x' }] },
    });
  }
  const post = await fetch(`${url}/alerts?format=xml`, { method: 'POST' });
  t.same([post.status, post.headers.get('content-type')], [405, xml], 'also for another method');
  const none = await fetch(`${url}/none?format=xml`);
  t.same([none.status, none.headers.get('content-type')], [404, json], 'JSON if there is no read');
});

t.test('sends freshness and validation headers with responses', async (t) => {
  const cases: [string, number, boolean][] = [
    ['/observations?station=KNYC', 60, true],
    ['/observations?station=KEMP', 15, false],
    ['/current-conditions?station=KNYC&maxAge=360', 60, false],
    ['/alerts', 15, false],
    ['/forecasts/hourly', 300, false],
    ['/forecasts/narrative', 300, false],
    ['/forecast-discussions', 120, true],
    ['/weather-stories', 180, true],
    ['/convective-outlooks', 120, true],
    ['/convective-outlooks/discussions', 120, true],
  ];
  // The feeder wrote rows without dates today, and records of the future have no date yet.
  const tomorrow = clockAt(new Date(Date.now() + 24 * 3600_000).toISOString());
  const later = await startWeather(t, { reader: await shared.openReader(tomorrow), clock: tomorrow });
  for (const [path, maxAge, dated] of cases) {
    const { headers } = await fetch((path.startsWith('/current') ? url : later) + path);
    t.equal(headers.get('cache-control'), `public, max-age=${maxAge}`, path);
    t.equal(headers.get('vary'), 'Accept, Accept-Encoding');
    t.match(headers.get('etag'), /^"[\w-]{27}"$/);
    t.equal(headers.has('last-modified'), dated, path);
    const modified = Date.parse(headers.get('last-modified') ?? '');
    t.notOk(modified > tomorrow.now().getTime(), 'never later than now');
  }
});

t.test('304 only for a tag of the same format, and tags override dates', async (t) => {
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
  const dated = (await fetch(path)).headers.get('last-modified') ?? '';
  const status = async (headers: Record<string, string>): Promise<number> =>
    (await fetch(path, { headers })).status;
  t.equal(await status({ 'if-none-match': '*' }), 304);
  t.equal(await status({ 'if-modified-since': dated }), 304);
  t.equal(await status({ 'if-modified-since': tomorrow }), 200, 'only its own date is a validator');
  t.equal(await status({ 'if-modified-since': 'Fri, 01 Jan 2010 00:00:00 GMT' }), 200);
  t.equal(await status({ 'if-modified-since': 'yesterday' }), 200);
  t.equal(await status({ 'if-none-match': '"other"', 'if-modified-since': dated }), 200);
});

t.test('HEAD is GET without the body; other methods are rejected', async (t) => {
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
  t.match(text, /^500 Internal Server Error: template_error\n/);
  t.notMatch(text, templates, 'the path of the file is not printed');
  await rm(file);
  t.match(await read(), [406, /unsupported_format/]);
  t.equal((await fetch(`${url}/observations`)).status, 200, 'JSON needs no template');
  await writeFile(file, 'back');
  t.same(await read(), [200, 'back']);
});

t.test('identical reads share one query, and rendered answers are cached for a while', async (t) => {
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
  t.equal(reads, 1, 'an equivalent query');
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

t.test('cached reads are logged and counted like all others', async (t) => {
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

t.test('rejects an invalid request target without side effects', async (t) => {
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

t.test('every format reports outdated data', async (t) => {
  const asOf = new Date('2026-01-17T18:10:00Z');
  const none = {
    fetchedAt: '2026-01-17T18:10:00Z',
    sourceUpdatedAt: null,
    timeZone: 'UTC',
    total: 0,
    alerts: [],
  };
  const old = readerThat(() => Promise.resolve({ data: none, lastModified: null, asOf }));
  const counted: unknown[] = [];
  const weatherMetrics = {
    weatherRejected: () => undefined,
    weatherStoodIn: () => undefined,
    weatherAnswered: (family: string, answer: object) => void counted.push([family, answer]),
  };
  const day = 24 * 3600_000;
  const read = async (format: string, staleAfterMs = day): Promise<[string | null, string]> => {
    const url = await startWeather(t, { reader: old, clock, staleAfterMs, weatherMetrics });
    const response = await fetch(`${url}/alerts?format=${format}`);
    t.equal(response.headers.has('last-modified'), false);
    return [response.headers.get('warning'), await response.text()];
  };
  const warning = '110 waybill "Response is Stale"';
  t.same(await read('json'), [
    warning,
    JSON.stringify({ data: none, meta: { stale: true, asOf: '2026-01-17T18:10:00Z' } }),
  ]);
  t.same(counted, [['alerts', { stale: true, asOf }]]);
  t.same(JSON.parse((await read('geojson'))[1]), {
    type: 'FeatureCollection',
    data: { fetchedAt: none.fetchedAt, sourceUpdatedAt: null, timeZone: 'UTC', total: 0 },
    meta: { stale: true, asOf: '2026-01-17T18:10:00Z' },
    features: [],
  });
  const [, xml] = await read('xml');
  t.match(xml, '</data><meta><stale>true</stale><asOf>2026-01-17T18:10:00Z</asOf></meta></response>');
  const [, text] = await read('text');
  t.match(text, /^\*\*\* STALE: .* Sat 17 Jan 2026 18:10 UTC \*\*\*\n/);
  t.notMatch(text, /no alert is in force/i);
  const [fresh, body] = await read('text', 4 * day);
  t.equal(fresh, null);
  t.match(body, 'No alert is in force.');
  t.notMatch(body, 'STALE');
});

t.test('an answer with different bytes is never 304, whatever the clock and the tables do', async (t) => {
  let now = new Date('2026-01-20T17:55:00Z');
  let elapsed = 0;
  const ticking = { ...clock, now: () => now, monotonic: () => elapsed };
  const moving = await shared.openReader(ticking);
  await (await shared.openTarget()).run('update forecast_discussions set received_at = issued_at');
  // Cached for one step: each step queries the database once for repeated requests.
  const settings = { staleAfterMs: 5 * 3600_000, cacheMs: 1000 };
  const url = await startWeather(t, { reader: moving, clock: ticking, ...settings });
  const ofTheClock = [
    '/observations?station=KNYC&format=text',
    '/current-conditions?station=KNYC,PAMR&maxAge=60',
    '/current-conditions?station=KNYC,PAMR&maxAge=60&format=geojson',
    '/forecasts/hourly?location=OKX/33,35&hours=2',
    '/forecasts/hourly?location=OKX/33,35&hours=2&format=csv',
    '/convective-outlooks?select=effective&geometry=false',
    '/convective-outlooks?select=effective&format=geojson',
    '/stations?near=40.7,-74&limit=3&format=geojson',
    '/observations?point=40.77,-73.98',
  ];
  const paths = [
    '/observations?station=KNYC',
    ...['xml', 'geojson', 'csv'].map((format) => `/observations?station=KNYC&format=${format}`),
    ...ofTheClock,
    '/observations/history?station=KNYC&start=2026-01-20T00:00:00Z&end=2026-01-21T00:00:00Z&format=csv',
    ...['identity', 'gzip', 'br'].map((coding) => `/forecast-discussions?office=OKX#${coding}`),
  ];
  /** Not `url`: the part after # is the encoding. */
  const ask = (path: string, headers: Record<string, string> = {}): Promise<Response> => {
    const [target = '', coding = 'identity'] = path.split('#');
    return fetch(url + target, { headers: { ...headers, 'accept-encoding': coding } });
  };
  const changes = [
    "update observations set temperature_c = temperature_c + 1 where station_id = 'KNYC'",
    "insert into observations (station_id, observed_at, received_at) values ('KNYC', '2026-01-20T18:30Z', '2026-01-20T17:00Z')",
    "delete from observations where station_id = 'KNYC' and observed_at = '2026-01-20T18:30Z'",
    "update observations set temperature_c = temperature_c - 1 where station_id = 'KNYC'",
  ];
  const seen = new Map<string, { body: string; etag: string; modified: string }[]>();
  let revalidated = 0;
  for (let step = 0; step < 24; step++) {
    const change = changes[step % 6];
    if (change !== undefined) await (await shared.openTarget()).run(change);
    now = new Date(now.getTime() + (step % 3) * 11 * 60_000);
    elapsed += 1000;
    for (const path of paths) {
      const response = await ask(path);
      const body = await response.text();
      const history = seen.get(path) ?? [];
      const statusOfDate = new Map<string, number>();
      for (const before of history.filter(({ modified }) => modified !== '')) {
        const known = statusOfDate.get(before.modified);
        const status = known ?? (await ask(path, { 'if-modified-since': before.modified })).status;
        statusOfDate.set(before.modified, status);
        if (status === 304)
          t.equal(before.body, body, `${path} of ${before.modified} at ${now.toISOString()}`);
        revalidated += status === 304 ? 1 : 0;
      }
      for (const before of history.slice(-3)) {
        const { status } = await ask(path, { 'if-none-match': before.etag });
        t.equal(status === 304, before.body === body, path);
      }
      const others = [...seen].flatMap(([other, all]) => {
        const last = all.at(-1);
        const isSame = last?.body === body && other.split('#')[1] === path.split('#')[1];
        return last === undefined || isSame ? [] : [last.etag];
      });
      if (others.length > 0)
        t.equal(
          (await ask(path, { 'if-none-match': others.join() })).status,
          200,
          `${path}: no other format`,
        );
      t.equal(response.headers.get('vary'), 'Accept, Accept-Encoding');
      const { headers } = response;
      history.push({ body, etag: headers.get('etag') ?? '', modified: headers.get('last-modified') ?? '' });
      seen.set(path, history);
    }
  }
  t.ok(revalidated > 10, 'the same bytes are 304');
  for (const path of ofTheClock)
    t.ok(
      seen.get(path)?.every(({ modified }) => modified === ''),
      `${path} depends on the clock`,
    );
  await (await shared.openTarget()).run(changes[2] ?? '');
  await shared.openReader(clock);
});

t.test('serves the last good answer while the database is unreachable, until it is stale', async (t) => {
  let away = false;
  let elapsed = 0;
  const failing = readerThat(() =>
    away
      ? Promise.reject(
          new WaybillError('database_unavailable', 'the database "x" cannot be reached (ECONNREFUSED)'),
        )
      : Promise.resolve({ data: { a: 1 }, lastModified: null, asOf: clock.now() }),
  );
  const lines: { fields: object; message: string }[] = [];
  const note = (fields: object, message: string): void => void lines.push({ fields, message });
  const log = { debug: note, info: note, warn: note, error: note };
  const ticking = { ...clock, monotonic: () => elapsed };
  const url = await startWeather(t, {
    reader: failing,
    clock: ticking,
    cacheMs: 1000,
    staleAfterMs: 60_000,
    log,
  });
  const read = (): Promise<Response> => fetch(`${url}/alerts`);
  t.equal((await read()).headers.get('warning'), null);
  away = true;
  elapsed = 30_000;
  const response = await read();
  t.equal(response.status, 200);
  t.equal(response.headers.get('warning'), '111 waybill "Revalidation Failed"');
  t.same(await response.json(), { data: { a: 1 } });
  t.ok(lines.some(({ message }) => message === 'serving the last good response'));
  elapsed = 61_000;
  t.equal((await read()).status, 503, 'stale data does not');
  while (!lines.some(({ fields }) => 'status' in fields && fields.status === 503))
    await new Promise((resolve) => setImmediate(resolve));
  t.match(lines.at(-1)?.fields, {
    code: 'database_unavailable',
    reason: /cannot be reached \(ECONNREFUSED\)/,
  });
});

t.test('a refusal because of a missing template names the file in the log', async (t) => {
  const lines: object[] = [];
  const note = (fields: object): void => void lines.push(fields);
  const log = { debug: note, info: note, warn: note, error: note };
  const templates = t.testdir({ 'observations.txt.tmpl': {} });
  const url = await startWeather(t, { reader, clock, templates, log });
  const response = await fetch(`${url}/observations?format=text`);
  t.equal(response.status, 406);
  t.match(await response.text(), /^406 Not Acceptable: unsupported_format\n[^]*templates\.base_dir/);
  while (!lines.some((line) => 'status' in line)) await new Promise((resolve) => setImmediate(resolve));
  t.match(lines.at(-1), { reason: /observations\.txt\.tmpl: it is not a regular file/ });
});

t.test(
  'an invalid record is named once in the log, counted once, and reported with every answer',
  async (t) => {
    const target = await shared.openTarget();
    await target.run(
      "insert into observations (station_id, observed_at, temperature_c) values ('KNYC', '2026-01-20T18:05Z', 'NaN')",
    );
    const dirty = await shared.openReader(clock);
    const lines: object[] = [];
    const warn = (fields: object): void => void lines.push(fields);
    const none = (): void => undefined;
    const counted: unknown[] = [];
    const weatherMetrics = {
      weatherAnswered: none,
      weatherStoodIn: none,
      weatherRejected: (...what: unknown[]) => void counted.push(what),
    };
    const log = { debug: none, info: none, error: none, warn };
    const url = await startWeather(t, { reader: dirty, clock, log, weatherMetrics });
    const path = `${url}/observations?station=KNYC`;
    for (let time = 0; time < 3; time++)
      t.match(await (await fetch(path)).json(), {
        data: { temperature: null },
        meta: { rejected: [{ field: 'observations.temperature_c', reason: 'not_finite', count: 1 }] },
      });
    t.match(
      await (await fetch(`${url}/current-conditions?station=KNYC`)).json(),
      {
        data: { temperature: -7.2 },
      },
      'the older valid value counts',
    );
    const record = 'KNYC 2026-01-20T18:05:00Z';
    const fault = { field: 'observations.temperature_c', reason: 'not_finite', record };
    t.same(lines, [
      { family: 'observations', ...fault },
      { family: 'currentConditions', ...fault },
    ]);
    t.same(counted, [
      ['observations', 'not_finite'],
      ['currentConditions', 'not_finite'],
    ]);
    await (await shared.openTarget()).run("delete from observations where observed_at = '2026-01-20T18:05Z'");
    await shared.openReader(clock);
  },
);

t.test('the reader alone serves the document and the page that its refusals link', async (t) => {
  const response = await fetch(`${url}/openapi.json`);
  t.equal(response.status, 200);
  const document: unknown = await response.json();
  t.match(document, {
    info: { description: /^Serves the latest weather records/ },
    paths: { '/alerts': { get: {} } },
  });
  t.match(await (await fetch(`${url}/docs`)).text(), '/current-conditions');
});
