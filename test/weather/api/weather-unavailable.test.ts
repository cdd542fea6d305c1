import t from 'tap';
import type { PostgresConfig } from '../../../src/core/config/weather/databases.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';
import { openWeatherDatabases } from '../../../src/weather/reader.ts';
import { startPostgres } from '../../services/postgres.ts';
import { primary } from '../primary-database.ts';
import { startWeather } from './weather-harness.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const env = { WEATHER_URL: server.url('weather_reader') };
const secrets = await loadSecrets({ directory: null, env });
const owner = await openServer(server.url());
await createTables(owner);
await owner.close();

interface Line {
  status?: number;
  code?: string;
  reason?: string;
}

/** A reader over HTTP, and its log lines. */
async function served(changes: Partial<PostgresConfig> = {}, cacheMs = 0) {
  const lines: Line[] = [];
  const note = (fields: object): void => void lines.push(fields);
  const log = { debug: note, info: note, warn: note, error: note };
  const reader = await openWeatherDatabases({
    databases: [{ ...primary, ...changes }],
    secrets,
    clock: systemClock,
  });
  t.teardown(() => reader.close());
  const url = await startWeather(t, { reader, clock: systemClock, log, cacheMs });
  return { url, lines };
}

/** Requests alerts while their table is locked. */
async function whileLocked<T>(work: (owner: WritableDatabase) => Promise<T>): Promise<T> {
  const owner = await openServer(server.url());
  await owner.run('begin; lock table alert_runs in access exclusive mode');
  try {
    return await work(owner);
  } finally {
    await owner.run('rollback');
    await owner.close();
  }
}

async function logged(lines: readonly Line[], count: number): Promise<Line[]> {
  const of503 = (): Line[] => lines.filter(({ status }) => status === 503);
  while (of503().length < count) await new Promise((resolve) => setImmediate(resolve));
  return of503();
}

async function terminated(): Promise<void> {
  const owner = await openServer(server.url());
  const waiting = "application_name = 'waybill-weather' and wait_event_type = 'Lock'";
  for (let ended = 0; ended === 0;)
    ended = (await owner.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${waiting}`, []))
      .length;
  await owner.close();
}

t.test('a read that is 503 is one log line with the cause', async (t) => {
  const causes: [
    string,
    RegExp,
    Partial<PostgresConfig>,
    (ask: () => Promise<Response>) => Promise<Response>,
  ][] = [
    [
      'a locked table',
      /has locked a table for too long \(55P03\): canceling statement due to lock timeout/,
      {
        lockTimeoutMs: 50,
      },
      (ask) => whileLocked(ask),
    ],
    [
      'a slow statement',
      /did not answer a query in time \(57014\): canceling statement due to statement timeout/,
      {
        statementTimeoutMs: 50,
      },
      (ask) => whileLocked(ask),
    ],
    [
      'a connection that was terminated',
      // A slow machine writes to the connection once more before it detects its end.
      /is shutting down or ended the connection \((CONNECTION_CLOSED|ECONNRESET|EPIPE)\)/,
      {},
      (ask) => whileLocked(async () => (await Promise.all([ask(), terminated()]))[0]),
    ],
    [
      'a server that is not there',
      /cannot be reached \(ECONNREFUSED\): connect ECONNREFUSED 127\.0\.0\.1:\d+/,
      {},
      async (ask) => {
        await server.stop();
        try {
          return await ask();
        } finally {
          await server.start();
        }
      },
    ],
  ];
  for (const [name, reason, changes, fail] of causes)
    await t.test(name, async (t) => {
      const { url, lines } = await served(changes);
      const response = await fail(() => fetch(`${url}/alerts`));
      t.equal(response.status, 503);
      t.match(response.headers.get('retry-after'), /^\d+$/);
      const problem = await response.text();
      t.match(JSON.parse(problem), { code: 'database_unavailable', retryable: true });
      t.notMatch(problem, /127\.0\.0\.1|canceling/, 'the client gets no details');
      const of503 = await logged(lines, 1);
      t.equal(lines.length, 1, 'no other log lines');
      t.match(of503[0], { code: 'database_unavailable', reason });
    });
});

t.test(
  'rejects a request that would time out on a locked table immediately, with a Retry-After',
  async (t) => {
    const { url, lines } = await served({ lockTimeoutMs: 1000 });
    await whileLocked(async () => {
      // Each is a separate query. They are sent as fast as they are answered.
      let limit = 0;
      const first = Array.from({ length: 24 }, () => fetch(`${url}/alerts?limit=${(limit += 1)}`));
      for (const { status } of await Promise.all(first)) t.equal(status, 503);
      const crowd = Array.from({ length: 64 }, async () => {
        const response = await fetch(`${url}/alerts?limit=${(limit += 1)}`);
        t.equal(response.status, 503);
        return Number(response.headers.get('retry-after'));
      });
      const others = await fetch(`${url}/weather-stories`);
      t.equal(others.status, 200, 'another family is still served');
      const retries = await Promise.all(crowd);
      t.ok(retries.every((seconds) => seconds >= 1 && seconds <= 30));
    });
    const shed = (await logged(lines, 88)).filter(({ reason }) => reason?.includes('(POOL_FULL)'));
    t.ok(shed.length >= 32, `${shed.length} of 64 did not wait`);
    const back = await fetch(`${url}/alerts`);
    t.equal(back.status, 200, 'it continues once the lock is released');
  },
);

t.test('logs the use of a last good answer with the cause', async (t) => {
  const owner = await openServer(server.url());
  await owner.run('insert into alert_runs (fetched_at) values (now())');
  await owner.close();
  const { url, lines } = await served({ lockTimeoutMs: 50 }, 1);
  t.equal((await fetch(`${url}/alerts`)).status, 200);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const response = await whileLocked(() => fetch(`${url}/alerts`));
  t.equal(response.headers.get('warning'), '111 waybill "Revalidation Failed"');
  t.ok(lines.some(({ reason }) => reason?.includes('(55P03): canceling statement due to lock timeout')));
});
