import t, { type Test } from 'tap';
import type { NwsConfig } from '../../../src/core/config/weather/feed.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { feedDocument, type FeedResult } from '../../../src/weather/feed/feed-document.ts';
import { feedOnce } from '../../../src/weather/feed/feed-sources.ts';
import { sourcesOf } from '../../../src/weather/feed/sources/requests-of.ts';
import { createRequestTable } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import { startPostgres } from '../../services/postgres.ts';
import { dayOfChanges, nwsConfig, paths } from './day.ts';
import { type NwsServer, refusing, startNws } from './nws-server.ts';
import { emptied } from './suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const target = await openServer(server.url());
t.teardown(() => target.close());

const [morning, , later] = dayOfChanges();
if (morning === undefined || later === undefined) throw new Error('no day');

/** Only places are requested. */
function placesOnly(url: string, offices: readonly string[] = []): NwsConfig {
  const { places, ...config } = nwsConfig(url, offices);
  return {
    ...config,
    alerts: null,
    stations: [],
    locations: [],
    forecastDiscussions: [],
    weatherStories: [],
    outlooks: [],
    outlookDiscussions: false,
    places,
  };
}

async function feed(nws: NwsServer, offices: readonly string[] = []): Promise<Record<string, FeedResult>> {
  nws.asked.length = 0;
  const fed: Record<string, FeedResult> = {};
  await feedOnce({
    target,
    config: { database: null, urlEnv: null, watch: null, nws: placesOnly(nws.url, offices) },
    clock: { ...systemClock, sleep: () => Promise.resolve() },
    signal: new AbortController().signal,
    onResult: (each) => (fed[each.place.slice(nws.url.length)] = each),
    random: () => 0,
  });
  return fed;
}

const statuses = (nws: NwsServer): Record<string, number> =>
  Object.fromEntries(nws.asked.map(({ path, status }) => [path, status]));
const stations = (): Promise<unknown[]> =>
  target.query('select station_id, name, latitude_deg, elevation_m from stations order by 1', []);

async function served(t: Test): Promise<NwsServer> {
  const nws = await startNws(morning!);
  t.teardown(() => nws.close());
  await emptied(target);
  return nws;
}

t.test('requests the next page even if a page has not changed', async (t) => {
  const nws = await served(t);
  await feed(nws);
  t.same(
    Object.keys(statuses(nws)).sort(),
    [paths.zones, paths.counties, paths.fireZones, paths.stations, paths.stations2, paths.stations3].sort(),
  );
  nws.show(later);
  const fed = await feed(nws);
  t.match(statuses(nws), { [paths.stations]: 304, [paths.stations2]: 200, [paths.zones]: 304 });
  t.equal(fed[paths.stations2]?.rows, 1);
  t.match(await stations(), [{ station_id: 'KJFK' }, { station_id: 'KLGA', name: 'LaGuardia' }, {}]);
});

t.test('requests a failed page again, but not the pages before it', async (t) => {
  const nws = await served(t);
  nws.failNext(paths.stations2, ...Array.from({ length: 4 }, () => refusing(503)));
  nws.failNext(paths.zones, refusing(429, { 'retry-after': '1' }), refusing(500));
  const fed = await feed(nws);
  t.match(fed[paths.stations2], { outcome: 'failed', reason: 'the server answered 503' });
  t.equal(fed[paths.zones]?.outcome, 'loaded', 'after a pause');
  t.equal((await stations()).length, 2);
  await feed(nws);
  t.match(statuses(nws), { [paths.stations]: 304, [paths.stations2]: 200, [paths.stations3]: 200 });
  t.equal((await stations()).length, 3);
});

t.test('abandons a list without an end after a hundred pages, and a cyclic one immediately', async (t) => {
  const nws = await served(t);
  const page = (cursor: string): string =>
    (morning.documents.get(paths.stations) ?? '').replace(/cursor=[^"]*"/, `cursor=${cursor}"`);
  const pages = Array.from({ length: 200 }, (_, n) => [
    n === 0 ? paths.stations : `${paths.stations}&cursor=c${n}`,
    page(`c${n + 1}`),
  ]);
  nws.show({ ...morning, documents: new Map([...morning.documents, ...(pages as [string, string][])]) });
  t.match(await feed(nws), {
    [`${paths.stations}&cursor=c100`]: { outcome: 'failed', reason: 'the list has more than 100 pages' },
  });
  t.equal(nws.asked.filter(({ path }) => path.startsWith('/stations')).length, 100);
  const circle: [string, string][] = [
    [paths.stations, page('c1')],
    [`${paths.stations}&cursor=c1`, page('c1')],
  ];
  nws.show({ at: later.at, documents: new Map([...morning.documents, ...circle]) });
  t.match(await feed(nws), {
    [`${paths.stations}&cursor=c1`]: { outcome: 'failed', reason: 'pagination.next leads back to this page' },
  });
});

t.test('a table must have the location of an office before its name can be loaded', async (t) => {
  const nws = await served(t);
  const first = await feed(nws, ['OKX']);
  t.match(first[paths.office], {
    outcome: 'failed',
    reason: 'where OKX is, the service does not say: load a table of offices first (docs/weather-feeder.md)',
  });
  const text = 'office,latitude_deg,longitude_deg\nOKX,40.8656,-72.8642\n';
  await feedDocument(target, { place: 'offices.csv', name: 'offices.csv', text, receivedAt: null });
  t.match((await feed(nws, ['OKX']))[paths.office], { outcome: 'loaded', rows: 1 }, 'requested again');
  t.match(await target.query('select * from offices', []), [
    { office: 'OKX', name: 'New York', state: 'NY', latitude_deg: 40.8656 },
  ]);
});

t.test('an observation moves a station only if it is elsewhere', async (t) => {
  const nws = await served(t);
  await feed(nws);
  const sample = {
    geometry: { type: 'Point', coordinates: [-73.98, 40.77] },
    properties: {
      station: 'https://api.weather.gov/stations/KNYC',
      timestamp: '2026-01-20T17:51:00+00:00',
      elevation: { value: 48 },
    },
  };
  const observe = (changes: object): Promise<FeedResult> =>
    feedDocument(target, {
      place: 'KNYC.json',
      name: 'KNYC.json',
      text: JSON.stringify({ ...sample, ...changes }),
      receivedAt: null,
    });
  await observe({});
  t.match((await stations())[2], { latitude_deg: 40.78333, elevation_m: 46.9392 });
  await observe({ geometry: { type: 'Point', coordinates: [-74.5, 41] } });
  t.match((await stations())[2], {
    name: 'New York City, Central Park',
    latitude_deg: 41,
    elevation_m: 48,
  });
});

t.test('a table of requests from an earlier version works, and is extended with pages', async (t) => {
  const nws = await served(t);
  await target.run('alter table feed_requests drop column cursor');
  await feed(nws);
  await feed(nws);
  t.match(statuses(nws), { [paths.stations]: 200, [paths.stations2]: 200, [paths.zones]: 200 });
  await createRequestTable(target);
  await feed(nws);
  await feed(nws);
  t.ok(nws.asked.length === 6 && nws.asked.every(({ status }) => status === 304));
});

t.test('seas have neither counties nor fire-weather zones', (t) => {
  const config = { ...placesOnly('http://nws'), places: { stations: [], zones: ['AN', 'NJ'], offices: [] } };
  t.same(
    sourcesOf(config).map(({ url }) => url),
    ['forecast?area=AN', 'forecast?area=NJ', 'county?area=NJ', 'fire?area=NJ'].map(
      (path) => `http://nws/zones/${path}&include_geometry=true`,
    ),
  );
  t.end();
});
