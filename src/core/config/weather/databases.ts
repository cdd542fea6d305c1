import {
  choice,
  duration,
  environmentName,
  id,
  integer,
  list,
  map,
  matching,
  path,
  variants,
} from '../../lib/settings/kinds.ts';
import type { ResolvedBy } from '../../lib/settings/setting.ts';

const name = id().required().description('Name in logs and errors.').example('primary');

const schema = matching(
  /^[a-z_][a-z0-9_]{0,62}$/,
  'the name of a database schema: lower-case letters, digits and _',
)
  .default('weather')
  .description('Schema of the weather tables.');

const statementTimeout = duration({ atLeast: '10ms', atMost: '10m' })
  .default('5s')
  .description('Time limit for a query. Effective maximum: four fifths of weather.deadline.');

const example = 'a database such as {name: primary, driver: postgres, url_env: DATABASE_URL}';

const databaseSettings = variants('driver', example, {
  postgres: map({
    name,
    driver: choice('postgres').required().description('A PostgreSQL server.'),
    url_env: environmentName()
      .required()
      .description('Environment variable, or file in secrets.directory, with the URL of the database.')
      .example('WEATHER_DATABASE_URL'),
    schema,
    pool_size: integer(1, 1000)
      .default(8)
      .description('Maximum connections. One family of records uses at most half.'),
    statement_timeout: statementTimeout,
    lock_timeout: duration({ atLeast: '10ms', atMost: '10m' })
      .default('1s')
      .description('Time limit for a locked table, if less than statement_timeout.'),
    connect_timeout: duration({ atLeast: '1s', atMost: '5m' })
      .default('5s')
      .description('Time limit for opening a connection or waiting for a free one.'),
  }),
  pglite: map({
    name,
    driver: choice('pglite')
      .required()
      .description(
        'An embedded database, without a server. Uses about 800 MB of memory. Needs the package @electric-sql/pglite.',
      ),
    directory: path()
      .required()
      .description('Directory of the database. Only one process can open it.')
      .example('./weather-data'),
    schema,
  }),
});

export const databases = list(databaseSettings, { min: 0, expected: 'a list of weather databases' })
  .default([])
  .description('Databases with weather records, all probed at startup. Reads use the first.');

export type DatabaseConfig = ResolvedBy<typeof databaseSettings>;
export type PostgresConfig = Extract<DatabaseConfig, { driver: 'postgres' }>;
export type PgliteConfig = Extract<DatabaseConfig, { driver: 'pglite' }>;
