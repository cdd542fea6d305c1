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

const name = id().required().description('Name of the database in logs and errors.').example('primary');

const schema = matching(
  /^[a-z_][a-z0-9_]{0,62}$/,
  'the name of a database schema: lower-case letters, digits and _',
)
  .default('weather')
  .description('Schema of the weather tables.');

const statementTimeout = duration({ atLeast: '10ms', atMost: '10m' })
  .default('5s')
  .description(
    'Time limit for one query. A query that takes longer is cancelled, and the request gets 503. Effective maximum: four fifths of weather.deadline.',
  );

const databaseSettings = variants('driver', 'a weather database', {
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
      .description('Maximum number of connections. One family of records uses at most half of them.'),
    statement_timeout: statementTimeout,
    lock_timeout: duration({ atLeast: '10ms', atMost: '10m' })
      .default('1s')
      .description('Time limit for waiting on a locked table, if less than statement_timeout.'),
    connect_timeout: duration({ atLeast: '1s', atMost: '5m' })
      .default('5s')
      .description('Time limit for opening a connection, and for waiting for a free one.'),
  }),
  pglite: map({
    name,
    driver: choice('pglite')
      .required()
      .description(
        'An embedded database in a directory, without a server. Uses about 800 MB of memory. Needs the package @electric-sql/pglite.',
      ),
    directory: path()
      .required()
      .description('Directory of the embedded database. Only one process at a time can open it.')
      .example('./weather-data'),
    schema,
  }),
});

export const databases = list(databaseSettings, { min: 0, expected: 'a list of weather databases' })
  .default([])
  .description(
    'Databases with weather records. All are opened and probed at startup. Reads use the first one.',
  );

export type DatabaseConfig = ResolvedBy<typeof databaseSettings>;
export type PostgresConfig = Extract<DatabaseConfig, { driver: 'postgres' }>;
export type PgliteConfig = Extract<DatabaseConfig, { driver: 'pglite' }>;
