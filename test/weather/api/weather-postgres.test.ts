import t from 'tap';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import { openWeatherDatabases } from '../../../src/weather/reader.ts';
import { startPostgres } from '../../services/postgres.ts';
import { primary } from '../primary-database.ts';
import { clockAt } from '../suite.ts';
import { startWeather } from './weather-harness.ts';
import { weatherHttpSuite } from './weather-suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const env = { WEATHER_URL: server.url('weather_reader') };
const secrets = await loadSecrets({ directory: null, env });

t.test('every family works over HTTP from a server', (t) =>
  weatherHttpSuite(t, {
    openTarget: () => openServer(server.url()),
    openReader: (clock) => openWeatherDatabases({ databases: [primary], secrets, clock }),
  }),
);

t.test('reads are 503 while the database is unreachable, and 200 afterwards without a restart', async (t) => {
  const clock = clockAt('2026-01-20T18:00:00Z');
  const reader = await openWeatherDatabases({ databases: [primary], secrets, clock });
  t.teardown(() => reader.close());
  const url = await startWeather(t, { reader, clock });
  const read = (): Promise<Response> => fetch(`${url}/observations?station=KNYC`);
  t.equal((await read()).status, 200);
  await server.stop();
  const away = await read();
  t.equal(away.status, 503);
  t.match(away.headers.get('retry-after'), /^\d+$/);
  t.match(await away.json(), { code: 'database_unavailable', retryable: true });
  await server.start();
  const seen = new Set<number>();
  for (let back = await read(); back.status !== 200; back = await read()) seen.add(back.status);
  t.ok(seen.size === 0 || (seen.size === 1 && seen.has(503)), 'only 503 until it is back');
});

t.test('reports tables with other columns by name, without SQL', async (t) => {
  const clock = clockAt('2026-01-20T18:00:00Z');
  const owner = await openServer(server.url());
  const reader = await openWeatherDatabases({ databases: [primary], secrets, clock });
  t.teardown(() => reader.close());
  const url = await startWeather(t, { reader, clock });
  await owner.run('alter table outlooks rename to outlooks_v1');
  const response = await fetch(`${url}/convective-outlooks`);
  const text = await response.text();
  t.equal(response.status, 500);
  t.match(JSON.parse(text), { code: 'schema_mismatch', detail: /requires weather\.outlook\.v2/ });
  t.notMatch(text, /select /i);
  await owner.run('alter table outlooks_v1 rename to outlooks');

  // A database from a version without places.
  await owner.run(
    `alter table stations drop column state; drop table locations; drop table offices; drop table zones`,
  );
  const old = await openWeatherDatabases({ databases: [primary], secrets, clock });
  t.teardown(() => old.close());
  const withoutPlaces = await startWeather(t, { reader: old, clock });
  for (const path of [
    '/observations?station=KNYC,KBFI',
    '/observations/history?station=KNYC',
    '/current-conditions',
    '/alerts',
    '/forecasts/hourly',
    '/forecasts/narrative',
    '/convective-outlooks?point=40.78,-73.97',
  ])
    t.equal((await fetch(withoutPlaces + path)).status, 200, path);
  for (const path of [
    '/stations',
    '/locations',
    '/offices?near=40.78,-73.97',
    '/observations?point=40.78,-73.97',
    '/current-conditions?point=40.78,-73.97',
    '/alerts?point=40.78,-73.97',
    '/forecasts/narrative?point=40.78,-73.97',
  ]) {
    const refused = await fetch(withoutPlaces + path);
    const problem = await refused.text();
    t.match(JSON.parse(problem), {
      code: 'schema_mismatch',
      detail: /stations\.state .* locations, offices and zones/,
    });
    t.notMatch(problem, /select /i);
  }
  await owner.close();
});
