import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import type { FeedConfig } from '../../../src/core/config/weather/feed.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { feedDocument, type FeedResult } from '../../../src/weather/feed/feed-document.ts';
import { feedOnce } from '../../../src/weather/feed/feed-sources.ts';
import { createRequestTable, createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';
import { dayOfChanges, nwsConfig, officeTable, paths, read } from './day.ts';
import { dump } from './dump.ts';
import { type Moment, type NwsServer, startNws } from './nws-server.ts';

/** Creates an empty database at the target. */
export async function emptied(target: WritableDatabase): Promise<void> {
  await target.run('drop schema if exists weather cascade');
  await createTables(target);
  await createRequestTable(target);
}

/** All documents of the day are requested from the server at this URL. */
export function feedConfig(url: string, offices: readonly string[] = []): FeedConfig {
  return { database: null, urlEnv: null, watch: null, nws: nwsConfig(url, offices) };
}

export async function feedFrom(
  target: WritableDatabase,
  url: string,
  offices: readonly string[] = [],
): Promise<FeedResult[]> {
  const fed: FeedResult[] = [];
  const { signal } = new AbortController();
  await feedOnce({
    target,
    config: feedConfig(url, offices),
    clock: systemClock,
    signal,
    onResult: (each) => fed.push(each),
    random: () => 0,
  });
  return fed;
}

export async function placeOffice(target: WritableDatabase): Promise<void> {
  const name = 'offices.csv';
  await feedDocument(target, { place: name, name, text: officeTable, receivedAt: null });
}

/**
 * Feeds a day with one poll at each time. After the first one, a table provides the location of the office.
 */
export async function feedDay(
  target: WritableDatabase,
  server: NwsServer,
  moments: readonly Moment[] = dayOfChanges(),
): Promise<void> {
  for (const [index, moment] of moments.entries()) {
    server.show(moment);
    if (index === 1) await placeOffice(target);
    await feedFrom(target, server.url, index === 0 ? [] : ['OKX']);
  }
}

async function rowsOf(target: WritableDatabase, sql: string): Promise<unknown[]> {
  return (await target.query(`select (${sql}) as found`, [])).map((row) => row['found'])[0] as unknown[];
}

/** The behavior of the feeder that is the same on every driver. */
export async function feedSuite(t: Test, open: () => Promise<WritableDatabase>): Promise<void> {
  const target = await open();
  t.teardown(() => target.close());
  const server = await startNws(dayOfChanges()[0]!);
  t.teardown(() => server.close());

  await t.test('follows a day of changes', async (t) => {
    await emptied(target);
    // JavaScript has no such numbers.
    for (const table of ['alert_runs', 'forecast_runs', 'weather_story_runs', 'outlook_runs'])
      await target.run(`alter table ${table} alter run_id restart with 9007199254740993`);
    await feedDay(target, server);
    t.same(
      await rowsOf(
        target,
        "select json_agg(to_char(fetched_at, 'HH24:MI') order by fetched_at) from alert_runs",
      ),
      ['06:00', '08:00', '09:00', '12:00'],
      'a poll with the same alerts updates the time of the newest run',
    );
    t.same(
      await rowsOf(
        target,
        `select json_agg(json_build_array(to_char(observed_at, 'HH24:MI'), temperature_c, to_char(received_at, 'HH24:MI'),
           (select string_agg(amount, ' ' order by position) from observation_clouds cloud
            where cloud.station_id = o.station_id and cloud.observed_at = o.observed_at)) order by observed_at)
         from observations o where station_id = 'KNYC'`,
      ),
      [
        ['17:51', -7.2, '06:00', 'CLR'],
        ['18:51', -5.2, '08:00', 'BKN OVC'],
      ],
      'a correction replaces the earlier product, and counts as new',
    );
    t.same(
      await rowsOf(
        target,
        `select json_agg(json_build_array(to_char(issued_at, 'HH24MI'), (select string_agg(label, ' ' order by rank)
           from outlooks where run_id = run.run_id and hazard = 'categorical')) order by issued_at)
         from outlook_runs run where valid_from = '2026-05-17T12:00Z'`,
      ),
      [
        ['0610', 'TSTM MRGL SLGT ENH'],
        ['1630', 'TSTM MRGL SLGT'],
      ],
    );
    t.same(
      await rowsOf(
        target,
        "select json_agg(json_build_array(office, to_char(fetched_at, 'HH24:MI')) order by office, fetched_at) from weather_story_runs",
      ),
      [
        ['BGM', '12:00'],
        ['MKX', '08:00'],
        ['MKX', '12:00'],
      ],
    );
    t.same(await rowsOf(target, 'select json_agg(time_zone order by station_id) from stations'), [
      'America/New_York',
      'America/New_York',
      'America/New_York',
      'America/Anchorage',
    ]);
    t.same(await rowsOf(target, 'select json_agg(office) from forecast_discussions'), ['OKX', 'OKX']);
    t.same(
      await rowsOf(
        target,
        'select json_agg(json_build_array(station_id, name, state, longitude_deg) order by station_id) from stations',
      ),
      [
        ['KJFK', 'New York, Kennedy International Airport', 'NY', -73.7622],
        ['KLGA', 'LaGuardia', 'NY', -73.88],
        ['KNYC', 'New York City, Central Park', 'NY', -73.96667],
        ['PABR', 'Wiley Post-Will Rogers Memorial Airport', null, -156.78],
      ],
      'stations of every page, unchanged by observations',
    );
    t.same(
      await rowsOf(
        target,
        "select json_agg(json_build_array(ugc, geometry->'coordinates'->0->0->0) order by ugc) from zones",
      ),
      [
        ['NYC061', -74.05],
        ['NYZ072', -74.07],
        ['NYZ075', -74.06],
      ],
    );
    t.same(await rowsOf(target, 'select json_agg(json_build_array(name, state)) from offices'), [
      ['New York, NY', 'NY'],
    ]);
    t.same(
      await rowsOf(
        target,
        "select json_agg(distinct same order by same) from alert_areas where ugc in ('ALC129', 'LMZ740', 'MTZ301')",
      ),
      ['001129', '030035 030049 030073 030099', '092740'],
    );
  });

  await t.test('neither sends nor writes unchanged data again', async (t) => {
    const before = await dump(target);
    server.asked.length = 0;
    const fed = await feedFrom(target, server.url, ['OKX']);
    t.ok(fed.length >= 19 && fed.every(({ outcome }) => outcome === 'unchanged'));
    t.ok(server.asked.every(({ status }) => status === 304));
    t.same(await dump(target), before);
    // Without its stored state, it loads everything again, which changes nothing.
    await target.run('delete from feed_requests');
    server.asked.length = 0;
    await feedFrom(target, server.url, ['OKX']);
    t.ok(server.asked.every(({ status }) => status === 200));
    t.same(await dump(target), before);
  });

  await t.test('reports an invalid document and loads the others', async (t) => {
    await emptied(target);
    const [morning] = dayOfChanges();
    const documents = new Map(morning!.documents);
    documents.set(paths.knyc, '{"features": [{"properties": {"timestamp": ');
    documents.delete(paths.hourly);
    server.show({ at: morning!.at, documents });
    const fed = await feedFrom(target, server.url);
    const failed = fed.filter(({ outcome }) => outcome === 'failed');
    t.same(
      failed.map(({ place }) => place.slice(server.url.length)).sort(),
      [paths.hourly, paths.knyc].sort(),
    );
    t.match(failed.map(({ reason }) => reason).sort(), [
      /^it is not JSON/,
      /^the server answered 404: Not Found$/,
    ]);
    t.match(
      fed.filter(({ outcome }) => outcome === 'skipped'),
      [{ place: `${server.url}${paths.stations3}`, reason: 'it is an empty list' }],
      'the page after the last',
    );
    t.equal(fed.filter(({ outcome }) => outcome === 'loaded').length, fed.length - 3);
    server.show(morning!);
    t.same(
      (await feedFrom(target, server.url))
        .filter(({ outcome }) => outcome === 'loaded')
        .map(({ place }) => place.slice(server.url.length))
        .sort(),
      [paths.hourly, paths.knyc].sort(),
      'it is requested again',
    );
  });

  await t.test('a web page instead of the data is a failure, and is not remembered', async (t) => {
    await emptied(target);
    const [morning] = dayOfChanges();
    const documents = new Map(morning!.documents);
    documents.set(paths.knyc, '<!DOCTYPE html><html><body>Maintenance</body></html>');
    server.show({ at: morning!.at, documents });
    t.match(
      (await feedFrom(target, server.url)).filter(({ outcome }) => outcome === 'failed'),
      [{ place: `${server.url}${paths.knyc}`, reason: 'it is a web page (HTML), not data' }],
    );
    server.show(morning!);
    t.match(
      (await feedFrom(target, server.url)).filter(({ outcome }) => outcome === 'loaded'),
      [{ place: `${server.url}${paths.knyc}` }],
    );
  });

  await t.test('omits values that the database rejects, and keeps the rest of the list', async (t) => {
    const sample = JSON.parse(read('observations/KNYC_latest_20260120.json')) as { properties: object };
    const wet = structuredClone(sample);
    Object.assign(wet.properties, { timestamp: '2026-01-20T20:00:00Z', relativeHumidity: { value: 300 } });
    const nul = structuredClone(sample);
    Object.assign(nul.properties, { timestamp: '2026-01-20T21:00:00Z', textDescription: 'a\u0000b' });
    const fine = structuredClone(sample);
    Object.assign(fine.properties, { timestamp: '2026-01-20T22:00:00Z' });
    const feed = (features: object[]): Promise<FeedResult> =>
      feedDocument(target, {
        place: 'list.json',
        name: 'list.json',
        text: JSON.stringify({ features }),
        receivedAt: null,
      });
    const far = structuredClone(sample);
    Object.assign(far.properties, { timestamp: '+275000-01-20T21:00:00Z' });
    const fed = await feed([wet, nul, far, fine]);
    t.match(fed, {
      outcome: 'loaded',
      leftOut: [
        'features[0]: properties.relativeHumidity is 300, which is impossible; read as unknown',
        /^features\[2\]: the database refuses it: /,
      ],
    });
    t.equal(fed.leftOut.length, 2);
    const times = await rowsOf(
      target,
      "select json_agg(to_char(observed_at, 'HH24') order by observed_at) from observations where station_id = 'KNYC' and observed_at > '2026-01-20T19:00Z'",
    );
    t.same(times, ['20', '21', '22'], 'an invalid field affects only itself');
    t.match(await feed([far]), { outcome: 'failed', reason: /^the database refuses it: / });
  });

  await t.test('a discussion is assigned to its outlook, in either order of arrival', async (t) => {
    const discussion = readFileSync(
      'test/fixtures/weather/outlooks/SWODY1_20260508_0100Z_no_severe.txt',
      'utf8',
    );
    const areas = read('outlooks/day1otlk_cat.nolyr.geojson.json')
      .replaceAll('202605171200', '202605080100')
      .replaceAll('202605181200', '202605081200')
      .replaceAll('202605170610', '202605080034');
    const documents = [
      { name: 'SWODY1.txt', text: discussion },
      { name: 'day1otlk_cat.json', text: areas },
    ];
    const dumps = [];
    for (const order of [documents, documents.toReversed()]) {
      await emptied(target);
      for (const { name, text } of order)
        t.match(await feedDocument(target, { place: name, name, text, receivedAt: null }), {
          outcome: 'loaded',
        });
      dumps.push(await dump(target));
    }
    t.same(dumps[0], dumps[1]);
    t.equal(dumps[0]?.['outlook_runs']?.length, 1);
    t.equal(dumps[0]?.['outlook_discussions']?.length, 1);
  });
}
