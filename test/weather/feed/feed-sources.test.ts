import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { hasCode } from '../../../src/core/lib/errors.ts';
import { feedForever } from '../../../src/weather/feed/feed-sources.ts';
import { createRequestTable, createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';
import { startPostgres } from '../../services/postgres.ts';
import { atConnectionEnd } from '../../support/at-connection-end.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { dayOfChanges } from './day.ts';
import { dump } from './dump.ts';
import { startNws } from './nws-server.ts';
import { emptied, feedConfig, feedDay, feedFrom, feedSuite, placeOffice } from './suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());

t.test('feeds a server', (t) => feedSuite(t, () => openServer(server.url())));

t.test('feeds an embedded database', async (t) => {
  const shared = await sharedPglite();
  await feedSuite(t, shared.openTarget);
  await shared.close();
});

t.test('several feeders can use one database', async (t) => {
  const nws = await startNws(dayOfChanges()[0]!);
  t.teardown(() => nws.close());
  const alone = await openServer(server.url());
  await emptied(alone);
  await feedDay(alone, nws);
  const expected = await dump(alone);

  await alone.run('drop schema weather cascade');
  const feeders = await Promise.all([1, 2, 3].map(() => openServer(server.url())));
  // All of them find no tables.
  await Promise.all(
    feeders.map(async (feeder) => {
      await createTables(feeder);
      await createRequestTable(feeder);
    }),
  );
  for (const [index, moment] of dayOfChanges().entries()) {
    nws.show(moment);
    if (index === 1) await placeOffice(alone);
    await Promise.all(feeders.map((feeder) => feedFrom(feeder, nws.url, index === 0 ? [] : ['OKX'])));
  }
  t.same(await dump(alone), expected);
  await Promise.all([alone, ...feeders].map((each) => each.close()));
});

t.test('a feeder continues after an outage of the database during any statement', async (t) => {
  const nws = await startNws(dayOfChanges()[0]!);
  t.teardown(() => nws.close());
  const target = await openServer(server.url());
  await emptied(target);
  await feedFrom(target, nws.url);
  const expected = await dump(target);

  const statements = {
    'a look at what was asked': /from feed_requests where/,
    'a look for a product': /where product_id/,
  };
  for (const [what, statement] of Object.entries(statements)) {
    await emptied(target);
    const stopping = new AbortController();
    const troubles: unknown[] = [];
    let isAway = false;
    let back: Promise<void> | undefined;
    let isBack = false;
    const losing: WritableDatabase = {
      ...target,
      async query(text, values) {
        if (!isAway && statement.test(text)) {
          isAway = true;
          await server.stop();
        }
        return target.query(text, values);
      },
    };
    await feedForever({
      target: losing,
      config: feedConfig(nws.url),
      clock: systemClock,
      signal: stopping.signal,
      intervalMs: 50,
      random: () => 0,
      onTrouble(error) {
        troubles.push(error);
        back ??= server.start().then(() => {
          isBack = true;
        });
      },
      onResult({ place }) {
        if (isBack && place.includes('/products/')) stopping.abort();
      },
    });
    t.ok(
      troubles.length > 0 && troubles.every((error) => hasCode(error, 'database_unavailable')),
      `${what}: ${troubles.length} outages`,
    );
    await feedFrom(target, nws.url);
    t.same(await dump(target), expected, what);
  }
  await target.close();
});

t.test('a statement that fails with its connection does not affect the next one', async (t) => {
  const target = await openServer(server.url());
  const other = await openServer(server.url());
  const ways = {
    query: () => target.query('select 1', []),
    run: () => target.run('select 1'),
    transaction: () => target.transaction((transaction) => transaction.run('select 1')),
  };
  for (const [name, way] of Object.entries(ways)) {
    await target.query('select 1', []);
    const met = atConnectionEnd(server.port, way);
    met.catch(() => undefined);
    await other.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'waybill-weather-feed' and pid <> pg_backend_pid()`,
      [],
    );
    await t.rejects(met, { code: 'CONNECTION_CLOSED' }, name);
    t.same(await target.query('select 7 as seven', []), [{ seven: 7 }], name);
  }
  await Promise.all([target.close(), other.close()]);
});

t.test('a connection lost halfway stores no part of a document', async (t) => {
  const target = await openServer(server.url());
  await emptied(target);
  await t.rejects(
    target.transaction(async (transaction) => {
      await transaction.query('insert into alert_runs (fetched_at) values (now())', []);
      const killer = await openServer(server.url());
      await killer.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'waybill-weather-feed' and pid <> pg_backend_pid()",
        [],
      );
      await killer.close();
      await transaction.query('insert into alert_runs (fetched_at) values (now())', []);
    }),
  );
  t.same(await target.query('select count(*)::int as runs from alert_runs', []), [{ runs: 0 }]);
  await target.close();
});
