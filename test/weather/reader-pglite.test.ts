import { join } from 'node:path';
import t from 'tap';
import { loadSecrets } from '../../src/core/lib/secrets.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { openDirectory } from '../../src/weather/feed/tables/open-directory.ts';
import { openWeatherDatabases } from '../../src/weather/reader.ts';
import { howMany } from '../support/sampling.ts';
import { dirtyMoment, dirtyRowsSuite } from './dirty-rows.ts';
import { oracleSuite } from './oracle.ts';
import { sharedPglite } from './shared-pglite.ts';
import { clockAt, readerSuite } from './suite.ts';

const secrets = await loadSecrets({ directory: null, env: {} });

t.test('the reader on the embedded database', async (t) => {
  const shared = await sharedPglite();
  await readerSuite(t, shared);
  await t.test('handles invalid rows', async (t) => {
    await dirtyRowsSuite(t, {
      run: async (text) => (await shared.openTarget()).run(text),
      openReader: () => shared.openReader(clockAt(dirtyMoment)),
    });
  });
  await t.test('random places and times match brute force', async (t) => {
    const target = await shared.openTarget();
    await target.run('drop schema weather cascade');
    await createTables(target);
    await oracleSuite(t, shared, { reads: howMany(500, 25), canForget: false });
  });
  await shared.close();
});

t.test('opens the directory of an embedded database', async (t) => {
  const directory = join(t.testdir({}), 'database');
  const databases = [{ name: 'embedded', driver: 'pglite', schema: 'weather', directory } as const];
  const target = await openDirectory(directory);
  await createTables(target);
  await target.close();

  await t.test('two processes cannot open one directory', async (t) => {
    const clock = clockAt('2026-01-01T00:00:00Z');
    const reader = await openWeatherDatabases({ databases, secrets, clock });
    await t.rejects(openWeatherDatabases({ databases, secrets, clock }), {
      code: 'database_unavailable',
      message: /^open databases: the embedded database .* is open already/,
    });
    await reader.close();
    const again = await openWeatherDatabases({ databases, secrets, clock });
    await again.close();
  });

  await t.test('reports a directory without a database, and creates none', async (t) => {
    const clock = clockAt('2026-01-01T00:00:00Z');
    const nowhere = [
      { name: 'embedded', driver: 'pglite', schema: 'weather', directory: `${directory}-none` } as const,
    ];
    await t.rejects(openWeatherDatabases({ databases: nowhere, secrets, clock }), {
      message: /^open databases: .* does not exist/,
    });
  });
});
