import t from 'tap';
import { fillAlerts } from '../../../../bench/weather-data.ts';
import { type Clock, systemClock } from '../../../../src/core/lib/clock.ts';
import { loadSecrets } from '../../../../src/core/lib/secrets.ts';
import type { WeatherDatabase } from '../../../../src/weather/database/database.ts';
import { openDatabase } from '../../../../src/weather/database/open-database.ts';
import { createTables } from '../../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../../src/weather/feed/tables/upsert.ts';
import { openWeatherDatabases, type WeatherReader } from '../../../../src/weather/reader.ts';
import { type AlertOutlines, outlinesInTime } from '../../../../src/weather/records/alerts/alert-outlines.ts';
import { startPostgres } from '../../../services/postgres.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const owner = await openServer(server.url());
t.teardown(() => owner.close());
const polygons = 10_000;
await fill();

/** Two polls. The newer one has lost one alert and gained another, and is dated yesterday at first. */
async function fill(): Promise<void> {
  const target = await openServer(server.url());
  await createTables(target);
  await fillAlerts(target, polygons);
  await target.run(`
    insert into alerts select (jsonb_populate_record(a, jsonb_build_object('alert_id', 'urn:bench:new',
        'geometry', '{"type":"Polygon","coordinates":[[[-74,40],[-73,40],[-73,41],[-74,41],[-74,40]]]}'::jsonb))).*
      from alerts a where alert_id = 'urn:bench:1';
    insert into alert_runs (fetched_at) values (now() - interval '1 day');
    insert into alert_run_members
      select (select max(run_id) from alert_runs), alert_id from alerts where alert_id <> 'urn:bench:2'`);
  await target.close();
}

const secrets = await loadSecrets({ directory: null, env: { WEATHER_URL: server.url('weather_reader') } });
const config = {
  name: 'primary',
  driver: 'postgres',
  schema: 'weather',
  urlEnv: 'WEATHER_URL',
  poolSize: 4,
  statementTimeoutMs: 60_000,
  lockTimeoutMs: 60_000,
  connectTimeoutMs: 60_000,
} as const;
const open = (clock: Clock): Promise<WeatherReader> =>
  openWeatherDatabases({
    databases: [config],
    secrets,
    clock,
    deadlineMs: 60_000,
  });
const point = { latitude: 40.78, longitude: -73.97 };

/** Rows of the table that were read by sessions that have ended. */
async function looked(target: WritableDatabase, table: string): Promise<number> {
  for (;;) {
    const [left] = await target.query(
      "select count(*)::int as sessions from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
      [],
    );
    if (left?.['sessions'] === 0) break;
  }
  const [row] = await target.query(
    `select (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_user_tables where relname = $1`,
    [table],
  );
  return Number(row?.['rows']);
}

t.test('reads the outlines of a poll once, and only new ones of the next poll', async (t) => {
  const before = await looked(owner, 'alerts');
  const reader = await open(systemClock);
  const first = await reader.alerts({ point });
  t.ok((first.data?.total ?? 0) > 0, 'there are alerts at the point');
  await owner.run("update alert_runs set fetched_at = now() + interval '1 minute' where run_id = 2");
  const second = await reader.alerts({ point, limit: 500 });
  t.equal(second.data?.total, (first.data?.total ?? 0) + 1);
  t.ok(second.data?.alerts.some(({ id }) => id === 'urn:bench:new'));
  await reader.close();
  const rows = (await looked(owner, 'alerts')) - before;
  t.ok(rows >= polygons && rows < 1.5 * polygons, `${rows} rows were read for ${polygons} outlines`);
});

t.test('rejects a request at its deadline, and finishes the started read', async (t) => {
  const before = await looked(owner, 'alerts');
  let isLate = true;
  const reader = await open({
    ...systemClock,
    timeout: (ms, callback, options) => systemClock.timeout(isLate ? 0 : ms, callback, options),
  });
  await t.rejects(reader.alerts({ point }), {
    code: 'database_unavailable',
    message: /outlines of the alerts are still being read/,
    retryable: true,
  });
  isLate = false;
  t.ok((await reader.alerts({ point })).data);
  await reader.close();
  const rows = (await looked(owner, 'alerts')) - before;
  t.ok(rows < 1.5 * polygons, `${rows} rows were read for ${polygons} outlines`);
});

/** Work that waits for `opened` continues once it is open. */
function gate(): { open: () => void; opened: Promise<void> } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

t.test("two polls whose outlines are read concurrently keep each other's entries", async (t) => {
  await owner.run(`
    insert into alerts select (jsonb_populate_record(a, jsonb_build_object('alert_id', 'urn:a:first'))).*
      from alerts a where alert_id = 'urn:bench:new';
    insert into alert_runs (fetched_at) values (now() + interval '2 minutes');
    insert into alert_run_members select (select max(run_id) from alert_runs), alert_id from alerts`);
  const opened = await openDatabase(config, { secrets, deadlineMs: 60_000 });
  t.teardown(() => opened.close());
  const [begun, first, third, reached] = [gate(), gate(), gate(), gate()];
  let pages = 0;
  const database: WeatherDatabase = {
    ...opened,
    async one(work, family) {
      const rows = await opened.one(work, family);
      const [row] = Array.isArray(rows) ? (rows as object[]) : [];
      if (row === undefined || !('alertId' in row && 'geometry' in row)) return rows;
      pages += 1;
      const page = pages;
      if (page === 1) {
        begun.open();
        await first.opened;
      }
      if (page !== 3) return rows;
      reached.open();
      await third.opened;
      return rows;
    },
  };
  const outlinesOf = (runId: bigint): Promise<AlertOutlines> =>
    outlinesInTime(
      { database, clock: systemClock, until: systemClock.monotonic() + 600_000 },
      { runId, fetchedAt: new Date(0) },
    );
  // The older one is held at its first page, and the newer one after it has read its own outlines.
  const older = outlinesOf(1n);
  await begun.opened;
  const newer = outlinesOf(3n);
  await reached.opened;
  first.open();
  t.notOk((await older).index.at({ latitude: 40.5, longitude: -73.5 }).has('urn:a:first'));
  third.open();
  const { index, unplaced } = await newer;
  t.ok(index.at({ latitude: 40.5, longitude: -73.5 }).has('urn:a:first'), 'its polygon finds it');
  t.equal(unplaced.size, 0);
});
