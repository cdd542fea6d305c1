import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { OpenApiDocument } from '../../src/api/http/openapi-types.ts';
import { systemClock } from '../../src/core/clock.ts';
import { feed, feedAll } from '../core/weather/feed-samples.ts';
import type { Driver } from '../core/weather/suite.ts';
import { xmllint } from '../services/xmllint.ts';
import { startWeather } from './weather-harness.ts';

const golden = 'test/fixtures/weather-golden';
const formats = [
  ['json', 'json'],
  ['xml', 'xml'],
  ['text', 'txt'],
] as const;

/** Name of the golden files, moment of the read, path. */
const reads: [string, string, string][] = [
  ['observation-newest', '2026-06-02T17:00:00Z', '/observations'],
  ['observation-knyc', '2026-01-20T18:00:00Z', '/observations?station=KNYC'],
  ['observation-knyc-us', '2026-01-20T18:00:00Z', '/observations?station=knyc&units=us'],
  ['observation-two-phenomena', '2026-03-04T23:00:00Z', '/observations?station=KBFI'],
  ['observation-all-null', '2024-03-14T18:00:00Z', '/observations?station=PHNL'],
  ['observation-none', '2026-01-20T18:00:00Z', '/observations?station=KXYZ'],
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
  ['outlook-discussion', '2026-05-17T13:00:00Z', '/convective-outlooks/discussions?day=2'],
];

/** Reads every family over HTTP, in every format, of a database that holds every sample. */
export async function weatherHttpSuite(t: Test, driver: Driver): Promise<void> {
  const target = await driver.openTarget();
  await feedAll(target);
  await feed(target, 'alerts/active_20251215_mixed13.json');
  await target.run("delete from alert_runs where fetched_at > '2025-12-31Z'");
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

  for (const [name, moment, path] of reads)
    await t.test(`${name} is as it was written down`, async (t) => {
      now = new Date(moment);
      for (const [format, extension] of formats) {
        const response = await fetch(`${url}${path}${path.includes('?') ? '&' : '?'}format=${format}`);
        const body = await response.text();
        t.equal(response.status, 200, format);
        if (format === 'xml') t.equal(await xmllint(body), '', 'well-formed');
        if (format === 'json') {
          t.same(Object.keys(JSON.parse(body) as object), ['data']);
          t.same(await errorsOf(`${url}${path}`, JSON.parse(body)), [], 'as /openapi.json says');
        }
        const lines = format === 'json' ? `${JSON.stringify(JSON.parse(body), null, 1)}\n` : body;
        t.equal(lines, await written(`${name}.${extension}`, lines));
      }
    });
}

/** What the document of the reader itself has against an answer, and against the example of its route. */
async function errorsOf(url: string, body: unknown): Promise<unknown[]> {
  const { origin, pathname } = new URL(url);
  const document = (await (await fetch(`${origin}/openapi.json`)).json()) as OpenApiDocument;
  const media = document.paths[pathname]?.get?.responses['200']?.content?.['application/json'];
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  const isValid = ajv.compile(media?.schema ?? false);
  return [body, media?.example].flatMap((each) => (isValid(each) ? [] : (isValid.errors ?? [])));
}

/**
 * With WAYBILL_GOLDEN=write the answers of today become the golden files, to be looked at before they are
 * committed.
 */
async function written(name: string, now: string): Promise<string> {
  const file = join(golden, name);
  if (process.env['WAYBILL_GOLDEN'] === 'write') {
    await mkdir(golden, { recursive: true });
    await writeFile(file, now);
  }
  return readFile(file, 'utf8');
}
