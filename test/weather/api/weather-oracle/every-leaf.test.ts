import t from 'tap';
import { loadSecrets } from '../../../../src/core/lib/secrets.ts';
import { openServer } from '../../../../src/weather/feed/tables/open-server.ts';
import { openWeatherDatabases } from '../../../../src/weather/reader.ts';
import { startPostgres } from '../../../services/postgres.ts';
import { howMany } from '../../../support/sampling.ts';
import { primary } from '../../primary-database.ts';
import { sharedPglite } from '../../shared-pglite.ts';
import { everyLeafSuite } from './suite.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const env = { WEATHER_URL: server.url('weather_reader') };
const secrets = await loadSecrets({ directory: null, env });

t.test('every value of every answer matches the raw rows', (t) =>
  everyLeafSuite(
    t,
    {
      openTarget: () => openServer(server.url()),
      openReader: (clock) => openWeatherDatabases({ databases: [primary], secrets, clock }),
    },
    howMany(10_000, 720),
  ),
);

t.test('the same from the embedded database', async (t) => {
  const shared = await sharedPglite();
  await everyLeafSuite(t, shared, howMany(1000, 72));
  await shared.close();
});
