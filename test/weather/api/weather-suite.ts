import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getIssues } from '@placemarkio/check-geojson';
import { parse } from 'csv-parse/sync';
import type { Test } from 'tap';
import type { OpenApiDocument } from '../../../src/api/http/route.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { schemaErrors } from '../../api/schema-errors.ts';
import { xmllint } from '../../services/xmllint.ts';
import { feed, feedAll } from '../feed-samples.ts';
import { placeRows } from '../place-rows.ts';
import type { Driver } from '../suite.ts';
import { startWeather } from './weather-harness.ts';

/** Alerts without an outline may apply at the requested place. */
const partlyUnknown = ['alerts-point', 'alerts-bbox'];
const golden = 'test/fixtures/weather-golden';
const formats = [
  ['json', 'json', 'application/json'],
  ['xml', 'xml', 'application/xml'],
  ['text', 'txt', 'text/plain'],
  ['geojson', 'geojson', 'application/geo+json'],
  ['csv', 'csv', 'text/csv'],
] as const;

const guam = 'urn:oid:2.49.0.1.840.0.03f1860e084073f0cf8e3b25d185844ad3824913.001.1';
/** Reads that name the place selected for the point. */
const resolving = ['observation-point', 'current-point', 'hourly-point'];

/** The name of the golden files, the time of the read, and the path. */
const reads: [string, string, string][] = [
  ['observation-newest', '2026-06-02T17:00:00Z', '/observations'],
  ['observation-knyc', '2026-01-20T18:00:00Z', '/observations?station=KNYC'],
  ['observation-knyc-us', '2026-01-20T18:00:00Z', '/observations?station=knyc&units=us'],
  ['observation-two-phenomena', '2026-03-04T23:00:00Z', '/observations?station=KBFI'],
  ['observation-all-null', '2024-03-14T18:00:00Z', '/observations?station=PHNL'],
  ['observation-none', '2026-01-20T18:00:00Z', '/observations?station=KEMP'],
  ['current', '2026-01-20T18:10:00Z', '/current-conditions?station=KNYC&maxAge=360'],
  ['current-us', '2026-01-20T18:10:00Z', '/current-conditions?station=KNYC&maxAge=360&units=us'],
  ['alerts', '2025-12-15T20:54:00Z', '/alerts'],
  ['alerts-two', '2025-12-15T20:54:00Z', '/alerts?severity=severe,Extreme&limit=2'],
  ['hourly', '2026-01-20T18:20:00Z', '/forecasts/hourly?location=OKX/33,35&hours=12'],
  ['hourly-us', '2026-01-20T18:20:00Z', '/forecasts/hourly?location=okx/33,35&hours=3&units=us'],
  ['narrative', '2026-01-20T18:20:00Z', '/forecasts/narrative?location=OKX/33,35'],
  ['discussion-okx', '2026-01-20T18:20:00Z', '/forecast-discussions?office=OKX'],
  ['discussion-psr', '2026-01-20T18:20:00Z', '/forecast-discussions?office=PSR'],
  ['stories', '2026-09-12T20:00:00Z', '/weather-stories?office=MKX'],
  ['outlook-day1', '2026-05-17T13:00:00Z', '/convective-outlooks?geometry=false'],
  ['outlook-day4', '2026-05-17T13:00:00Z', '/convective-outlooks?day=4&hazard=any_severe'],
  ['observation-point', '2026-01-20T18:00:00Z', '/observations?point=40.7,-74.1&radius=20'],
  ['observations-three', '2026-01-20T18:00:00Z', '/observations?station=PHNL,KEMP,KNYC'],
  [
    'observation-history',
    '2026-01-21T18:00:00Z',
    '/observations/history?station=KNYC&start=2026-01-20T00:00:00Z&end=2026-01-21T00:00:00Z',
  ],
  ['current-point', '2026-01-20T18:10:00Z', '/current-conditions?point=40.7,-74.1&maxAge=360&units=us'],
  ['alerts-point', '2025-12-15T20:54:00Z', '/alerts?point=48.1,-112.2'],
  ['alerts-bbox', '2025-12-15T20:54:00Z', '/alerts?bbox=-122.3,47.4,-122.2,47.5'],
  ['alert', '2025-12-15T20:54:00Z', `/alerts/${guam}`],
  ['hourly-point', '2026-01-20T18:20:00Z', '/forecasts/hourly?point=40.7,-74&hours=2'],
  [
    'hourly-range',
    '2026-01-20T18:20:00Z',
    '/forecasts/hourly?location=OKX/33,35&start=2026-01-21T00:00:00Z&end=2026-01-21T02:30:00Z',
  ],
  ['outlook-point', '2026-05-17T13:00:00Z', '/convective-outlooks?point=39,-96.5&geometry=false'],
  ['stations-near', '2026-01-20T18:00:00Z', '/stations?near=61.2,-149.9&limit=3'],
  ['stations-search', '2026-01-20T18:00:00Z', '/stations?q=field+EMP&state=mn&units=us'],
  ['locations', '2026-01-20T18:20:00Z', '/locations?bbox=170,40,-74,62'],
  ['offices-near', '2026-01-20T18:20:00Z', '/offices?near=31,-85&limit=2&units=us'],
  ['outlook-discussion', '2026-05-17T13:00:00Z', '/convective-outlooks/discussions?day=2'],
];

/** Reads every family over HTTP, in every format, from a database with every sample. */
export async function weatherHttpSuite(t: Test, driver: Driver): Promise<void> {
  const target = await driver.openTarget();
  await feedAll(target);
  await feed(target, 'alerts/active_20251215_mixed13.json');
  await target.run("delete from alert_runs where fetched_at > '2025-12-31Z'");
  await target.run(placeRows);
  await target.close();

  let now = new Date('2026-01-20T18:00:00Z');
  const clock = {
    ...systemClock,
    now: () => now,
    monotonic: () => 0,
    sleep: () => Promise.resolve(),
  };
  const reader = await driver.openReader(clock);
  t.teardown(() => reader.close());
  const url = await startWeather(t, { reader, clock });
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as OpenApiDocument;
  const errorsOf = schemaErrors(document);

  for (const [name, moment, path] of reads)
    await t.test(`${name} matches its golden file`, async (t) => {
      now = new Date(moment);
      const offered = document.paths[routeOf(path)]?.get?.responses['200']?.content ?? {};
      for (const [format, extension, type] of formats) {
        const response = await fetch(`${url}${path}${path.includes('?') ? '&' : '?'}format=${format}`);
        const body = await response.text();
        await isAsTheDocumentSays(t, { document, errorsOf }, path, { response, body });
        t.equal(response.status, type in offered ? 200 : 406, format);
        if (response.status !== 200) continue;
        if (format === 'xml') t.equal(await xmllint(body), '', 'well-formed');
        if (format === 'json')
          t.same(
            Object.keys(JSON.parse(body) as object),
            resolving.includes(name) || partlyUnknown.includes(name) ? ['data', 'meta'] : ['data'],
          );
        if (format === 'geojson') t.same(getIssues(body), [], 'as in RFC 7946');
        if (format === 'csv') isTable(t, body);
        const isJson = format === 'json' || format === 'geojson';
        const lines = isJson ? `${JSON.stringify(JSON.parse(body), null, 1)}\n` : body;
        t.equal(lines, await written(`${name}.${extension}`, lines));
      }
    });
}

function routeOf(path: string): string {
  return path.replace(/\?.*/, '').replace(/^\/alerts\/.+/, '/alerts/{id}');
}

/** Checks an answer, its headers, and the example of its route against the reader's own document. */
async function isAsTheDocumentSays(
  t: Test,
  { document, errorsOf }: { document: OpenApiDocument; errorsOf: ReturnType<typeof schemaErrors> },
  path: string,
  { response, body }: { response: Response; body: string },
): Promise<void> {
  const documented = document.paths[routeOf(path)]?.get?.responses[response.status];
  const type = response.headers.get('content-type')?.split(';', 1)[0] ?? '';
  const media = documented?.content?.[type];
  const examples = media?.example === undefined ? [] : [media.example];
  for (const each of [type.endsWith('json') ? (JSON.parse(body) as unknown) : body, ...examples])
    t.same(errorsOf(media?.schema, each), [], type);
  for (const [name, { required }] of Object.entries(documented?.headers ?? {}))
    if (required === true) t.ok(response.headers.has(name), name);
}

/** Another parser finds the same number of fields in every line, and units in some names. */
function isTable(t: Test, body: string): void {
  t.match(body, /\r\n$/);
  const [names = [], ...rows] = parse(body, { bom: false, relax_column_count: false });
  t.ok(names.includes('temperature (degC)') || names.includes('temperature (degF)'));
  t.equal(new Set(names).size, names.length, 'all names are unique');
  for (const row of rows) t.equal(row.length, names.length);
}

/** With WAYBILL_GOLDEN=write, the current answers become the golden files. Review them before committing. */
async function written(name: string, now: string): Promise<string> {
  const file = join(golden, name);
  if (process.env['WAYBILL_GOLDEN'] === 'write') {
    await mkdir(golden, { recursive: true });
    await writeFile(file, now);
  }
  return readFile(file, 'utf8');
}
