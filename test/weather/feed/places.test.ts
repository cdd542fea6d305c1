import t, { type Test } from 'tap';
import { feedDocument, type FeedResult } from '../../../src/weather/feed/feed-document.ts';
import { createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';
import { startPostgres } from '../../services/postgres.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { read } from './day.ts';

const ring = [
  [-74.1, 40.6],
  [-73.9, 40.6],
  [-73.9, 40.9],
  [-74.1, 40.6],
];

/** In the format of api.weather.gov. */
function zone(
  id: string,
  changes: object = {},
  geometry: object | null = { type: 'Polygon', coordinates: [ring] },
) {
  return {
    id: `https://api.weather.gov/zones/forecast/${id}`,
    type: 'Feature',
    geometry,
    properties: {
      '@type': 'wx:Zone',
      id,
      type: 'public',
      name: `Zone ${id}`,
      state: 'NY',
      cwa: ['OKX'],
      ...changes,
    },
  };
}

function station(stationIdentifier: string, changes: object = {}) {
  return {
    type: 'Feature',
    geometry: { type: 'Point', coordinates: [-73.9666, 40.7833] },
    properties: {
      '@type': 'wx:ObservationStation',
      elevation: { unitCode: 'wmoUnit:m', value: 46.9392 },
      stationIdentifier,
      name: 'New York City, Central Park',
      timeZone: 'America/New_York',
      forecast: 'https://api.weather.gov/zones/forecast/NYZ072',
      county: 'https://api.weather.gov/zones/county/NYC061',
      ...changes,
    },
  };
}

const list = (features: object[]): string => JSON.stringify({ type: 'FeatureCollection', features });

async function places(t: Test, target: WritableDatabase): Promise<void> {
  const feed = (name: string, text: string): Promise<FeedResult> =>
    feedDocument(target, { place: `places/${name}`, name, text, receivedAt: null });
  const rows = (table: string): Promise<unknown[]> => target.query(`select * from ${table} order by 1`, []);
  await target.run('drop schema if exists weather cascade');
  await createTables(target);

  await t.test('loads a table of offices with invalid lines', async (t) => {
    const text = [
      '\uFEFFoffice,name,latitude_deg,longitude_deg,state',
      'OKX,"New York, NY",40.8656,-72.8642,NY',
      'okx,lower case,40,-72,NY',
      'PSR,Phoenix,33.4373,-111.9553,',
      'TAE,north of the pole,91,-84.2999,FL',
      'BOX,no longitude,41.9,,MA',
      'GUM,"Tiyan,\n Guam",13.4836,144.7961,GU',
      'ALY,a long state,42,-73,New York',
      'PSR,again,33,-111,AZ',
      'LWX,too few',
      'PHI,not a number,4e1,-75,NJ',
      '',
    ].join('\r\n');
    const fed = await feed('offices.csv', text);
    t.match(fed, { place: 'places/offices.csv', outcome: 'loaded', families: ['places'], rows: 3 });
    t.same(fed.leftOut, [
      'line 3: office is "okx", expected the three letters of an office, such as OKX',
      'line 5: latitude_deg is "91", expected a number from -90 to 90',
      'line 6: longitude_deg is missing',
      'line 9: state is "New York", expected two letters, such as NY',
      'line 10: PSR is on line 4 already',
      'line 11: it has 2 fields, and the first line has 5',
      'line 12: latitude_deg is "4e1", expected a number from -90 to 90',
    ]);
    t.match(await rows('offices'), [
      { office: 'GUM', name: 'Tiyan,\n Guam', time_zone: 'Pacific/Guam', state: 'GU' },
      { office: 'OKX', name: 'New York, NY', latitude_deg: 40.8656, time_zone: 'America/New_York' },
      { office: 'PSR', time_zone: 'America/Phoenix', state: null },
    ]);
    t.match(await feed('offices.csv', text), { outcome: 'unchanged', rows: 0 }, 'a second time');
  });

  await t.test('keeps the values of columns that the table does not have', async (t) => {
    await feed('KNYC.json', read('observations/KNYC_latest_20260120.json'));
    t.match(await rows('stations'), [{ station_id: 'KNYC', state: null }]);
    const states =
      'station_id,name,latitude_deg,longitude_deg,state\nKNYC,Central Park,40.7833,-73.9667,NY\n';
    t.match(await feed('stations.csv', states), { outcome: 'loaded', rows: 1, leftOut: { length: 0 } });
    t.match(await rows('stations'), [
      { station_id: 'KNYC', name: 'Central Park', elevation_m: Number, state: 'NY' },
    ]);
    await feed('KNYC.json', read('observations/KNYC_latest_20260120.json'));
    t.match(await rows('stations'), [{ state: 'NY' }], 'an observation does not remove the state');
  });

  await t.test('keeps names of grid cells when their forecasts arrive', async (t) => {
    const table =
      'location_id,name,latitude_deg,longitude_deg,state\n"OKX/33,35",Jersey City,40.7145,-74.013,NJ\n';
    t.match(await feed('cells.csv', table), { outcome: 'loaded', leftOut: { length: 0 } });
    await feed('OKX_33_35_hourly.json', read('forecast_hourly/OKX_33_35_hourly_20260120.json'));
    t.match(await rows('locations'), [{ location_id: 'OKX/33,35', name: 'Jersey City', state: 'NJ' }]);
  });

  await t.test('loads stations in the format of the service', async (t) => {
    const text = list([
      station('KNYC'),
      station('KXYZ', { county: null, forecast: null }),
      { ...station('KBAD'), geometry: null },
      station('KNYC'),
    ]);
    const fed = await feed('stations.json', text);
    t.match(fed, { outcome: 'loaded', rows: 2 });
    t.same(fed.leftOut, [
      'features[2]: geometry.coordinates are not a longitude and a latitude',
      'features[3]: KNYC is in the list before',
    ]);
    t.match(await rows('stations'), [
      { station_id: 'KNYC', name: 'New York City, Central Park', elevation_m: 46.9392, state: 'NY' },
      { station_id: 'KXYZ', state: null },
    ]);
    t.match(await feed('KNYC.json', JSON.stringify(station('KNYC'))), { outcome: 'unchanged' }, 'alone');
  });

  await t.test('loads zones with their outlines, in batches', async (t) => {
    const many = Array.from({ length: 45 }, (_, n) => zone(`NYZ${String(n).padStart(3, '0')}`));
    const open = [...ring.slice(0, 3), [0, 0]];
    const text = list([
      ...many,
      zone('NYZ100', {}, null),
      zone('NYZ101', {}, { type: 'Polygon', coordinates: [open] }),
      zone('NYZ102', { type: 'fire' }),
      zone('New York'),
    ]);
    const fed = await feed('zones.json', text);
    t.match(fed, { outcome: 'loaded', rows: 46 });
    t.same(fed.leftOut, [
      'features[45]: NYZ100 has no geometry: the list has them with include_geometry=true',
      'features[46]: the geometry of NYZ101 is not a polygon with closed rings',
      'features[48]: properties.id is "New York", which is not a zone code',
    ]);
    t.equal((await rows('zones')).length, 45);
    t.match(await rows('fire_zones'), [{ ugc: 'NYZ102' }], 'fire weather zones have a separate table');
    t.match(await feed('zones.json', text), { outcome: 'unchanged', rows: 0 });
    const moved = zone('NYZ003', { name: 'Moved' });
    t.match(await feed('NYZ003.json', JSON.stringify(moved)), { outcome: 'loaded', rows: 1 });
  });

  await t.test('rejects unreadable tables', async (t) => {
    const header = 'office,name,latitude_deg,longitude_deg';
    const cases: [text: string, outcome: string, reason: RegExp][] = [
      [
        'office,nmae,latitude_deg,longitude_deg\nOKX,a,1,2\n',
        'failed',
        /^line 1: the column "nmae" is not one of office, name/,
      ],
      ['office,name,latitude_deg\nOKX,a,1\n', 'failed', /^line 1: the column longitude_deg is missing$/],
      ['station_id,latitude_deg,longitude_deg\nKNYC,1,2\n', 'failed', /^line 1: the column name is missing$/],
      ['office,office,latitude_deg,longitude_deg\n', 'failed', /^line 1: the column office appears twice$/],
      [`${header}\nOKX,"open,1,2\n`, 'failed', /^line \d: it is not valid CSV: /],
      [`${header}\nokx,a,1,2\n`, 'failed', /^line 2: office is "okx"/],
      [`${header}\n`, 'skipped', /^it is a table without a line$/],
    ];
    for (const [text, outcome, reason] of cases) t.match(await feed('bad.csv', text), { outcome, reason });
  });
}

t.test('loads places on a server', async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.remove());
  const target = await openServer(server.url());
  t.teardown(() => target.close());
  await places(t, target);
});

t.test('loads places into the embedded database', async (t) => {
  const shared = await sharedPglite();
  t.teardown(() => shared.close());
  await places(t, await shared.openTarget());
});
