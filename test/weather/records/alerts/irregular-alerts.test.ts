import t, { type Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { loadSecrets } from '../../../../src/core/lib/secrets.ts';
import { createTables } from '../../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../../src/weather/feed/tables/open-server.ts';
import { openWeatherDatabases } from '../../../../src/weather/reader.ts';
import { startCuttingProxy } from '../../../services/cutting-proxy.ts';
import { startPostgres } from '../../../services/postgres.ts';
import { primary } from '../../primary-database.ts';
import { sharedPglite } from '../../shared-pglite.ts';
import { clockAt, type Driver } from '../../suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());

const moment = '2026-02-01T12:00:00Z';
const many = 3000;
const longText = 2000;

/** One poll of many alerts. Some, the most severe and the newest, have an invalid end. */
const poll = `
  insert into alert_runs (run_id, fetched_at) overriding system value values (900, '2026-02-01T11:59Z');
  insert into alerts (alert_id, sent_at, effective_at, expires_at, status, message_type, category, severity, certainty, urgency, event, area_desc, description)
    select 'a' || lpad(n::text, 4, '0'), '2026-02-01T11:00Z', '2026-02-01T11:00Z', case when n <= 3 then 'infinity' else '2026-02-02T00:00Z'::timestamptz end,
      'Actual', 'Alert', 'Met', case when n <= 3 then 'Extreme' else 'Severe' end, 'Likely', 'Expected', 'Flood Watch', 'here', repeat('x', ${longText})
    from generate_series(1, ${many}) n;
  insert into alert_run_members select 900, alert_id from alerts;`;

t.test('skips invalid alerts without affecting others', async (t) => {
  const proxy = await startCuttingProxy(t, server.port);
  const url = new URL(server.url('weather_reader'));
  url.port = String(proxy.port);
  const owner = await openServer(server.url());
  await createTables(owner);
  await owner.run(poll);
  const reader = await openWeatherDatabases({
    databases: [primary],
    secrets: await loadSecrets({ directory: null, env: { WEATHER_URL: url.href } }),
    clock: clockAt(moment),
  });
  for (const limit of [1, 100]) {
    const before = proxy.passed('from the server');
    const { data, rejected = [] } = await reader.alerts({ limit });
    const read = proxy.passed('from the server') - before;
    t.equal(data?.total, many - 3);
    t.same(
      data?.alerts.map(({ id }) => id),
      Array.from({ length: limit }, (_, index) => `a${String(index + 4).padStart(4, '0')}`),
      'no page is shorter than requested',
    );
    t.same(
      rejected.map(({ field, reason, record, isLeftOut }) => [field, reason, record, isLeftOut]),
      ['a0001', 'a0002', 'a0003'].map((id) => ['alerts.expires_at', 'bad_instant', id, true]),
    );
    t.ok(read < (limit + 10) * longText * 2, `${read} bytes for ${limit} alerts, and not the whole poll`);
  }
  await owner.run("update alerts set expires_at = 'infinity'");
  const { data, rejected = [] } = await reader.alerts({ limit: 2 });
  t.same([data?.total, data?.alerts], [0, []], 'with only invalid rows, there is none');
  t.equal(rejected.length, 1000, 'and their end is never reported');
  await Promise.all([reader.close(), owner.close()]);
});

async function codesSuite(t: Test, driver: Driver): Promise<void> {
  const lists = {
    plain: [
      "array['/O.NEW.KOKX.FL.W.0001.260201T0000Z-000000T0000Z/']",
      ['/O.NEW.KOKX.FL.W.0001.260201T0000Z-000000T0000Z/'],
    ],
    awkward: [
      String.raw`array[null, 'NULL', 'a\b', '\\', 'c"d', '{,}', '', ' e ', 'Zürich 雪', e'f\ng']`,
      [null, 'NULL', 'a\\b', '\\\\', 'c"d', '{,}', '', ' e ', 'Zürich 雪', 'f\ng'],
    ],
    none: ["'{}'", []],
    nested: ["array[['a', 'b'], ['c', null]]", ['a', 'b', 'c', null]],
    elsewhere: ["'[5:6]={a,b}'", ['a', 'b']],
  } as const;
  const target = await driver.openTarget();
  await createTables(target);
  for (const [id, [codes]] of Object.entries(lists))
    await target.run(
      `insert into alerts (alert_id, sent_at, effective_at, expires_at, status, message_type, category, severity, certainty, urgency, event, area_desc, vtec)
       values ('${id}', now(), now(), now(), 'Actual', 'Alert', 'Met', 'Severe', 'Likely', 'Expected', 'Flood Watch', 'here', ${codes})`,
    );
  const reader = await driver.openReader(systemClock);
  for (const [id, [, expected]] of Object.entries(lists)) {
    const { data, rejected } = await reader.alert({ id });
    t.same(data?.vtec, expected, id);
    t.equal(rejected, undefined);
  }
  await Promise.all([reader.close(), target.close()]);

  const lax = await driver.openTarget();
  await lax.run('alter table alerts alter vtec drop not null; update alerts set vtec = null');
  const again = await driver.openReader(systemClock);
  t.same((await again.alert({ id: 'plain' })).data?.vtec, [], 'if a table does not allow any');
  await Promise.all([again.close(), lax.close()]);
}

t.test('codes are unchanged, whatever they contain', async (t) => {
  await t.test('codes from a server', async (t) => {
    const secrets = await loadSecrets({
      directory: null,
      env: { WEATHER_URL: server.url('weather_reader') },
    });
    await codesSuite(t, {
      openTarget: () => openServer(server.url()),
      openReader: (clock) => openWeatherDatabases({ databases: [primary], secrets, clock }),
    });
  });
  await t.test('codes from the embedded database', async (t) => {
    const shared = await sharedPglite();
    await codesSuite(t, shared);
    await shared.close();
  });
});
