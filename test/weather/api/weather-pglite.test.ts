import { join } from 'node:path';
import t from 'tap';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { openDirectory } from '../../../src/weather/feed/tables/open-directory.ts';
import { openWeatherDatabases } from '../../../src/weather/reader.ts';
import { weatherHttpSuite } from './weather-suite.ts';

const secrets = await loadSecrets({ directory: null, env: {} });

t.test('every family works over HTTP from the embedded database', async (t) => {
  const directory = join(t.testdir({}), 'database');
  const databases = [{ name: 'embedded', driver: 'pglite', schema: 'weather', directory } as const];
  await weatherHttpSuite(t, {
    openTarget: () => openDirectory(directory),
    openReader: (clock) => openWeatherDatabases({ databases, secrets, clock }),
  });
});
