import { setImmediate } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import t from 'tap';
import type { Queries, WeatherDatabase } from '../../../src/weather/database/database.ts';
import { openPostgres } from '../../../src/weather/database/postgres.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import { type CuttingProxy, startCuttingProxy } from '../../services/cutting-proxy.ts';
import { startPostgres } from '../../services/postgres.ts';

const server = await startPostgres();
t.teardown(() => server.remove());

const lost = { code: 'database_unavailable', message: /CONNECTION_CLOSED|ECONNRESET|EPIPE/ };
const failed = sql`select 1 / 0`;
const seven = sql`select 7 as seven`;

/**
 * The number of turns of the event loop between the disconnect and the next statement: none, so that it is
 * written to a connection that is about to end; some, around the end; and so many that it has certainly
 * ended.
 */
const turns = [0, 1, 2, 3, 4, 5, 8, 13, 200] as const;

/** A database behind a proxy, with connections for `poolSize` reads. */
function open(port: number, poolSize: number): WeatherDatabase {
  return openPostgres(
    {
      name: 'primary',
      driver: 'postgres',
      schema: 'weather',
      urlEnv: 'WEATHER_URL',
      poolSize,
      statementTimeoutMs: 60_000,
      lockTimeoutMs: 60_000,
      connectTimeoutMs: 60_000,
    },
    `postgres://postgres@127.0.0.1:${port}/postgres`,
    { deadlineMs: 60_000 },
  );
}

async function cutAndWait(proxy: CuttingProxy, turns: number): Promise<void> {
  proxy.cutAll();
  for (let turn = 0; turn < turns; turn += 1) await setImmediate();
}

/** Each loses its connection at another position of a snapshot, after one statement of it was answered. */
const places: Record<string, (queries: Queries, cut: () => Promise<void>) => Promise<unknown>> = {
  'within a statement': async (queries, cut) => {
    const answered = queries.execute(sql`select pg_sleep(3600)`);
    await Promise.all([answered, cut()]);
  },
  'between two statements': async (queries, cut) => {
    await cut();
    await queries.execute(seven);
  },
  'between two statements, the next of which are sent together': async (queries, cut) => {
    await cut();
    // Longer than the data that the driver collects for one turn, so that it is written immediately.
    const long = sql.raw(`select '${'x'.repeat(5000)}'`);
    await Promise.all([queries.execute(seven), queries.execute(long), queries.execute(seven)]);
  },
  'before the end': (_, cut) => cut(),
  'before it fails by itself': async (queries, cut) => {
    await cut();
    await queries.execute(failed);
  },
  'and what follows catches that, and goes on': async (queries, cut) => {
    await cut();
    for (let statement = 0; statement < 3; statement += 1)
      await queries.execute(seven).catch(() => undefined);
  },
};

for (const poolSize of [1, 4])
  for (const [place, work] of Object.entries(places))
    t.test(`recovers from a connection lost ${place}, with a pool of ${poolSize}`, async (t) => {
      const proxy = await startCuttingProxy(t, server.port);
      const database = open(proxy.port, poolSize);
      for (const wait of turns) {
        const snapshot = database.snapshot(async (queries) => {
          await queries.execute(seven);
          await work(queries, () => cutAndWait(proxy, wait));
        });
        await t.rejects(snapshot, lost, `${wait} turns after the cut`);
        t.match(await database.snapshot((queries) => queries.execute(seven)), [{ seven: 7 }]);
        t.match(await database.one((queries) => queries.execute(seven)), [{ seven: 7 }]);
      }
      await database.close();
    });

t.test('after a failed statement, the connection can be used for the next snapshot', async (t) => {
  const database = open(server.port, 1);
  const pid = sql`select pg_backend_pid() as pid`;
  const first = await database.snapshot((queries) => queries.execute(pid));
  await t.rejects(
    database.snapshot((queries) => queries.execute(failed)),
    { code: 'internal_error', message: /22012/ },
  );
  t.same(await database.snapshot((queries) => queries.execute(pid)), first);
  await database.close();
});

t.test('recovers from a restart of the server during snapshots', async (t) => {
  const database = open(server.port, 8);
  const owner = await openServer(server.url());
  const sleeping = Array.from({ length: 3 }, () =>
    t.rejects(
      database.snapshot(async (queries) => {
        await queries.execute(seven);
        await queries.execute(sql`select pg_sleep(3600)`);
      }, 'sleeping'),
      { code: 'database_unavailable' },
    ),
  );
  let proceed = (): void => undefined;
  const restarted = new Promise<void>((resolve) => (proceed = resolve));
  const between = t.rejects(
    database.snapshot(async (queries) => {
      await queries.execute(seven);
      await restarted;
      await queries.execute(seven);
    }, 'between'),
    { code: 'database_unavailable' },
  );
  const asleep = `select 1 from pg_stat_activity where query like '%pg\\_sleep%' and application_name = 'waybill-weather'`;
  while ((await owner.query(asleep, [])).length < 3) await setImmediate();
  await owner.close();
  await server.stop();
  await server.start();
  proceed();
  await Promise.all([...sleeping, between]);
  t.match(await database.snapshot((queries) => queries.execute(seven)), [{ seven: 7 }]);
  await database.close();
});

t.test('finishes active reads when the database is closed', async (t) => {
  const database = open(server.port, 4);
  let closed: Promise<void> | undefined;
  const read = database.snapshot(async (queries) => {
    await queries.execute(seven);
    closed = database.close();
    return queries.execute(seven);
  });
  t.match(await read, [{ seven: 7 }]);
  await closed;
});
