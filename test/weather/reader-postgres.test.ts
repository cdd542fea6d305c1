import t from 'tap';
import type { PostgresConfig } from '../../src/core/config/weather/databases.ts';
import { loadSecrets } from '../../src/core/lib/secrets.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../src/weather/feed/tables/open-server.ts';
import { openWeatherDatabases, type WeatherReader } from '../../src/weather/reader.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { startPostgres } from '../services/postgres.ts';
import { atConnectionEnd } from '../support/at-connection-end.ts';
import { persist } from '../support/persist.ts';
import { howMany } from '../support/sampling.ts';
import { dirtyMoment, dirtyRowsSuite } from './dirty-rows.ts';
import { oracleSuite } from './oracle.ts';
import { primary } from './primary-database.ts';
import { anyAlert, clockAt, readerSuite } from './suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());

const secrets = await loadSecrets({
  directory: null,
  env: {
    WEATHER_URL: server.url('weather_reader'),
    OWNER_URL: server.url(),
    DOWN_URL: 'postgres://127.0.0.1:1/none',
    BAD_URL: 'postgres://user:hunter2@[',
    OTHER_URL: 'mysql://reader@127.0.0.1:1/weather',
  },
});
const clock = clockAt('2026-01-20T18:00:00Z');
const open = (changes: Partial<PostgresConfig> = {}): Promise<WeatherReader> =>
  openWeatherDatabases({ databases: [{ ...primary, ...changes }], secrets, clock });
const observation = { station: ['KNYC'], units: 'si' } as const;

/** Runs every kind of read once. */
async function readAll(reader: WeatherReader): Promise<void> {
  await reader.observations(observation);
  await reader.observations({ ...observation, station: [] });
  await reader.currentConditions({ station: ['KNYC'], maxAge: 90, units: 'si' });
  await reader.currentConditions({ station: [], maxAge: 90, units: 'si' });
  await reader.alerts(anyAlert);
  await reader.alerts({ ...anyAlert, zone: ['WAC033'] });
  for (const location of ['OKX/33,35', null]) {
    await reader.hourlyForecasts({ location, hours: 48, units: 'si' });
    await reader.narrativeForecasts({ location, periods: 14, units: 'si' });
  }
  for (const office of ['OKX', null]) {
    await reader.forecastDiscussions({ office });
    await reader.weatherStories({ office, limit: 7 });
  }
  await reader.convectiveOutlooks({ day: 1, hazard: [], select: 'issued', geometry: true });
  await reader.convectiveOutlooks({ day: 1, hazard: [], select: 'effective', geometry: true });
  await reader.outlookDiscussions({ day: 1 });
  const point = { latitude: 40.78, longitude: -73.97 };
  const bbox = { west: -180, south: -90, east: 180, north: 90 };
  for (const near of [point, null]) {
    await reader.stations({ near, q: 'new york' });
    await reader.locations({ near, bbox });
    await reader.offices({ near, state: 'NY' });
  }
  await reader.observations({ point });
  await reader.observations({ station: ['KNYC', 'KBFI'] });
  await reader.observationHistory({ station: 'KNYC', limit: 3 });
  await reader.currentConditions({ point });
  await reader.alerts({ point });
  await reader.alerts({ bbox });
  const { data } = await reader.alerts({});
  for (const { id } of data?.alerts ?? []) await reader.alert({ id });
  await reader.hourlyForecasts({ point });
  await reader.narrativeForecasts({ point });
  await reader.convectiveOutlooks({ point });
}

t.test('the reader on a server', (t) =>
  readerSuite(t, {
    openTarget: () => openServer(server.url()),
    openReader: (clock) => openWeatherDatabases({ databases: [primary], secrets, clock }),
  }),
);

t.test('random places and times match brute force', async (t) => {
  const schema = 'oracle';
  const target = await openServer(server.url(), schema);
  await createTables(target, schema);
  await target.close();
  await oracleSuite(
    t,
    {
      openTarget: () => openServer(server.url(), schema),
      openReader: (clock) => openWeatherDatabases({ databases: [{ ...primary, schema }], secrets, clock }),
    },
    { reads: howMany(10_000, 200), canForget: true },
  );
});

t.test('sends only reads to the server, and the session rejects writes', async (t) => {
  const reader = await open();
  await readAll(reader);
  await reader.close();
  const statements = (await server.log())
    .split('\n')
    .filter((line) => line.startsWith('waybill-weather|'))
    .flatMap((line) => /(?:statement|execute [^:]*): *(.*)/.exec(line)?.[1] ?? []);
  t.ok(statements.length > 50);
  t.same([...new Set(statements.map((statement) => statement.split(' ')[0]?.toLowerCase()))].sort(), [
    'begin',
    'commit',
    'select',
  ]);

  const owner = await openServer(server.url());
  const settings = await owner.query("select current_setting('transaction_read_only') as read_only", []);
  t.equal(settings[0]?.['read_only'], 'off', 'the owner itself can write');
  await owner.close();
  const { openPostgres } = await import('../../src/weather/database/postgres.ts');
  const database = openPostgres(primary, server.url());
  const { sql } = await import('drizzle-orm');
  await t.rejects(
    database.one((queries) => queries.execute(sql`delete from stations`)),
    { code: 'internal_error', message: /25006/ },
  );
  await t.rejects(
    database.snapshot((queries) => queries.execute(sql`delete from stations`)),
    { message: /25006/ },
  );
  await database.close();
});

t.test('a read that fails with its connection does not affect the next one', async (t) => {
  const { openPostgres } = await import('../../src/weather/database/postgres.ts');
  const { sql } = await import('drizzle-orm');
  const database = openPostgres({ ...primary, poolSize: 1, connectTimeoutMs: 10_000 }, server.url());
  const owner = await openServer(server.url());
  const read = (): Promise<unknown> => database.one((queries) => queries.execute(sql`select 7 as seven`));
  await read();
  const met = atConnectionEnd(server.port, read);
  met.catch(() => undefined);
  await owner.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'waybill-weather'",
    [],
  );
  await t.rejects(met, { code: 'database_unavailable' });
  t.match(await read(), [{ seven: 7 }]);
  await Promise.all([database.close(), owner.close()]);
});

t.test('reports missing and changed tables', async (t) => {
  const owner = await openServer(server.url());
  const reader = await open();
  const outlook = { day: 1, hazard: [], select: 'issued', geometry: true } as const;
  await owner.run('alter table outlook_runs rename to outlook_runs_old');
  await t.rejects(reader.convectiveOutlooks(outlook), {
    code: 'schema_mismatch',
    message: /requires weather\.outlook\.v2/,
  });
  await t.rejects(reader.outlookDiscussions({ day: 1 }), {
    code: 'schema_mismatch',
    message: /requires weather\.outlook\.v2/,
  });
  t.ok((await reader.observations(observation)).data, 'the other families continue');
  await owner.run(
    'alter table outlook_runs_old rename to outlook_runs; alter table observations rename column visibility_m to visibility',
  );
  const error = await reader.observations(observation).then(
    () => null,
    (error: unknown) => error as Error,
  );
  t.match(error, { code: 'schema_mismatch' });
  t.notMatch(error?.message, /select|visibility/i, 'no SQL leaks');
  await owner.run('alter table observations rename column visibility to visibility_m');
  await t.resolves(reader.convectiveOutlooks(outlook), 'outlooks work again');
  await reader.close();
  await owner.close();
});

t.test(
  'a slow query is cancelled, and a read that waits too long for a connection is rejected',
  async (t) => {
    const owner = await openServer(server.url());
    await owner.run('begin; lock table observations in access exclusive mode');
    const hasty = await open({ statementTimeoutMs: 100 });
    await t.rejects(hasty.observations(observation), {
      code: 'database_unavailable',
      message: /did not answer a query in time/,
      retryable: true,
    });
    const narrow = await open({ poolSize: 2, connectTimeoutMs: 1000, lockTimeoutMs: 5000 });
    // Eight single statements share one connection.
    const first = Promise.all(Array.from({ length: 8 }, () => narrow.observations(observation)));
    await t.rejects(narrow.observations(observation), {
      code: 'database_unavailable',
      message: /no free connection/,
    });
    await owner.run('commit');
    t.ok((await first).every(({ data }) => data !== null));
    const late = await persist(() => hasty.observations(observation), 'database_unavailable');
    t.ok(late.data, 'both continue');
    await Promise.all([hasty.close(), narrow.close(), owner.close()]);
  },
);

t.test('a locked table stops no other family', async (t) => {
  const owner = await openServer(server.url());
  await owner.run('begin; lock table alerts in access exclusive mode');
  const reader = await open({ poolSize: 8, lockTimeoutMs: 300 });
  const failed = { code: 'database_unavailable' };
  // Their limits differ, so they share no query.
  const stuck = Array.from({ length: 64 }, (_, limit) =>
    t.rejects(reader.alerts({ ...anyAlert, limit: limit + 1 }), failed),
  );
  for (let round = 0; round < 5; round++) {
    const all = [
      ...Array.from({ length: 8 }, () => reader.observations(observation)),
      reader.currentConditions({ station: ['KNYC'], maxAge: 90, units: 'si' }),
      reader.hourlyForecasts({ location: 'OKX/33,35', hours: 48, units: 'si' }),
      reader.outlookDiscussions({ day: 1 }),
    ];
    t.same(
      (await Promise.allSettled(all)).map(({ status }) => status),
      all.map(() => 'fulfilled'),
    );
  }
  await Promise.all(stuck);
  await owner.run('rollback; begin; lock table observations in access exclusive mode');
  const busy = Promise.allSettled(Array.from({ length: 32 }, () => reader.observations(observation)));
  t.ok((await reader.forecastDiscussions({ office: 'OKX' })).data, 'single statements share none either');
  await owner.run('rollback');
  await busy;
  await Promise.all([reader.close(), owner.close()]);
});

t.test('a frozen backend costs one timeout', async (t) => {
  const proxy = await startCuttingProxy(t, server.port);
  const url = new URL(server.url('weather_reader'));
  url.port = String(proxy.port);
  const reader = await openWeatherDatabases({
    databases: [primary],
    secrets: await loadSecrets({ directory: null, env: { WEATHER_URL: url.href } }),
    clock,
    deadlineMs: 500,
  });
  proxy.hang();
  // Each would take 45 s if statements waited for previous ones.
  const reads = Array.from({ length: 20 }, () => reader.observations(observation));
  const conditions = reader.alerts(anyAlert);
  await Promise.all([
    ...reads.map((read) => t.rejects(read, { code: 'database_unavailable' })),
    t.rejects(conditions, { code: 'database_unavailable' }),
  ]);
  proxy.resume();
  t.ok((await persist(() => reader.observations(observation), 'database_unavailable')).data);
  await reader.close();
});

t.test('a dead connection that was never closed is abandoned and replaced', async (t) => {
  const proxy = await startCuttingProxy(t, server.port);
  const url = new URL(server.url('weather_reader'));
  url.port = String(proxy.port);
  const reader = await openWeatherDatabases({
    databases: [{ ...primary, statementTimeoutMs: 50, connectTimeoutMs: 1000 }],
    secrets: await loadSecrets({ directory: null, env: { WEATHER_URL: url.href } }),
    clock,
    deadlineMs: 1000,
  });
  t.ok((await persist(() => reader.observations(observation), 'database_unavailable')).data);
  proxy.hang();
  await t.rejects(reader.observations(observation), {
    code: 'database_unavailable',
    message: /cannot be reached/,
    retryable: true,
  });
  proxy.resume();
  t.ok((await persist(() => reader.observations(observation), 'database_unavailable')).data);
  await reader.close();
});

t.test('reports a failure at startup with its context', async (t) => {
  const start = (databases: PostgresConfig[]): Promise<WeatherReader> =>
    openWeatherDatabases({ databases, secrets, clock });
  await t.rejects(start([]), {
    code: 'config_invalid',
    message: 'config.databases requires at least one entry',
  });
  const second = { ...primary, name: 'second', urlEnv: 'DOWN_URL' };
  await t.rejects(start([primary, second]), {
    code: 'database_unavailable',
    message: /^open databases: the database "second" cannot be reached/,
  });
  await t.rejects(start([{ ...primary, urlEnv: 'NONE' }]), {
    code: 'secrets_invalid',
    message: /^open databases: the secret NONE/,
  });
  const error = await start([{ ...primary, urlEnv: 'BAD_URL' }]).then(
    () => null,
    (error: unknown) => error as Error,
  );
  t.match(error, { code: 'secrets_invalid', message: /^open databases: the secret BAD_URL is not the URL/ });
  t.notMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), /hunter2/);
  await t.rejects(start([{ ...primary, urlEnv: 'OTHER_URL' }]), {
    code: 'secrets_invalid',
    message: /^open databases: the secret OTHER_URL is not the URL of a database/,
  });
});

t.test('finds the newest record of each family with an index', async (t) => {
  const owner = await openServer(server.url());
  await owner.run(`
    insert into stations select 'T' || lpad(n::text, 4, '0'), 'test', 0, 0, null, 'UTC' from generate_series(1, 1000) n;
    insert into observations (station_id, observed_at) select 'T' || lpad(n::text, 4, '0'), '2026-01-20T17:00Z'::timestamptz - make_interval(mins => 5 * m)
      from generate_series(1, 1000) n, generate_series(1, 200) m;
    insert into alert_runs (fetched_at) select '2020-01-01Z'::timestamptz + make_interval(mins => n) from generate_series(1, 50000) n;
    insert into forecast_runs (kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
      select kind, 'TST/1,' || n % 500, 'TST', 1, n % 500, 'UTC', t, t, t, t from generate_series(1, 25000) n,
      unnest(array['hourly', 'narrative']) kind, lateral (select '2020-01-01Z'::timestamptz + make_interval(mins => n) as t) times;
    insert into forecast_discussions (product_id, office, issued_at, raw_text) select 'p' || n, 'T' || n % 100, '2020-01-01Z'::timestamptz + make_interval(mins => n), '' from generate_series(1, 50000) n;
    insert into weather_story_runs (office, fetched_at) select 'T' || n % 100, '2020-01-01Z'::timestamptz + make_interval(mins => n) from generate_series(1, 50000) n;
    insert into outlook_runs (day, issued_at, valid_from, valid_until) select 1 + n % 8, t, t, t + '1 day' from generate_series(1, 50000) n,
      lateral (select '2010-01-01Z'::timestamptz + make_interval(mins => n) as t) times;
    analyze;
    alter role weather_reader set session_preload_libraries = 'auto_explain';
    grant set on parameter auto_explain.log_min_duration to weather_reader;
    alter role weather_reader set auto_explain.log_min_duration = 0;`);
  const before = (await server.log()).length;
  const reader = await open();
  await readAll(reader);
  await reader.close();
  const plans = (await server.log()).slice(before);
  for (const index of [
    'observations_pkey on observations',
    'observations_latest on observations',
    'alert_runs_latest on alert_runs',
    'forecast_runs_kind_location_id_generated_at_key on forecast_runs',
    'forecast_runs_any on forecast_runs',
    'forecast_discussions_office on forecast_discussions',
    'forecast_discussions_any on forecast_discussions',
    'weather_story_runs_office on weather_story_runs',
    'weather_story_runs_any on weather_story_runs',
    'outlook_runs_latest on outlook_runs',
  ])
    t.ok(new RegExp(`Index (Only )?Scan (Backward )?using ${index}`).test(plans), index);
  t.notMatch(plans, /Seq Scan on (observations|\w+_runs|forecast_discussions)\b/);
  await owner.close();
});

t.test('recovers from an outage of the server', async (t) => {
  const reader = await open();
  let running = true;
  const failures = new Set<string>();
  let answered = 0;
  const load = Array.from({ length: 8 }, async () => {
    while (running)
      await reader.observations(observation).then(
        () => (answered += 1),
        (error: unknown) => failures.add((error as { code: string }).code),
      );
  });
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await new Promise((resolve) => setImmediate(resolve));
  };
  await until(() => answered > 20);
  await server.stop();
  await until(() => failures.size > 0);
  const soFar = answered;
  await server.start();
  await until(() => answered > soFar + 20);
  running = false;
  await Promise.all(load);
  t.same([...failures], ['database_unavailable']);
  await reader.close();
});

t.test('handles invalid rows', async (t) => {
  const owner = await openServer(server.url());
  let minutes = 0;
  const clock = { ...clockAt(dirtyMoment), monotonic: () => minutes * 60_000 };
  const reader = await openWeatherDatabases({ databases: [primary], secrets, clock });
  await dirtyRowsSuite(t, {
    run: (text) => owner.run(text),
    openReader: () => {
      // Reads the cached value again.
      minutes += 10;
      return Promise.resolve({ ...reader, close: () => Promise.resolve() });
    },
  });
  await Promise.all([reader.close(), owner.close()]);
});
