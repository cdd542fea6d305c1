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
import type { AcceptedBy } from '../../lib/settings/setting.ts';
import { type PathBase, resolveDuration, resolvePath } from '../../lib/settings/values.ts';

export type DatabaseConfig = PostgresConfig | PgliteConfig;

export interface PostgresConfig {
  name: string;
  driver: 'postgres';
  schema: string;
  /** Variable that holds the URL of the database. */
  urlEnv: string;
  /** Connections, 1 to 1000. */
  poolSize: number;
  statementTimeoutMs: number;
  /** Longest wait for a locked table; at or above `statementTimeoutMs` it has no effect. */
  lockTimeoutMs: number;
  connectTimeoutMs: number;
}

export interface PgliteConfig {
  name: string;
  driver: 'pglite';
  schema: string;
  /** Absolute. */
  directory: string;
}

const name = id().required().description('Name of the database, for logs and errors.').example('primary');

const schema = matching(
  /^[a-z_][a-z0-9_]{0,62}$/,
  'the name of a database schema: lower-case letters, digits and _',
)
  .default('weather')
  .description('Schema that holds the weather tables.');

const statementTimeout = duration({ atLeast: '10ms', atMost: '10m' })
  .default('5s')
  .description(
    'Longest time that one query may take; then it is cut and the request answered with 503. At most four fifths of weather.deadline count.',
  );

const databaseSettings = variants('driver', 'a weather database', {
  postgres: map({
    name,
    driver: choice('postgres').required().description('A PostgreSQL server.'),
    url_env: environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, that holds the URL of the database. The URL itself never stands here.',
      )
      .example('WEATHER_DATABASE_URL'),
    schema,
    pool_size: integer(1, 1000)
      .default(8)
      .description(
        'Connections that are open at once. Single reads and snapshots use different ones, and one family of records half of them at most, so that a locked table stops no other.',
      ),
    statement_timeout: statementTimeout,
    lock_timeout: duration({ atLeast: '10ms', atMost: '10m' })
      .default('1s')
      .description('Longest time that a query waits for a locked table, if less than statement_timeout.'),
    connect_timeout: duration({ atLeast: '1s', atMost: '5m' })
      .default('5s')
      .description('Longest time that opening a connection, or waiting for a free one, may take.'),
  }),
  pglite: map({
    name,
    driver: choice('pglite')
      .required()
      .description(
        'An embedded database in a directory, with no server; it takes some 800 MB of memory. It needs the package @electric-sql/pglite.',
      ),
    directory: path()
      .required()
      .description('Directory of the embedded database; one process at a time opens it.')
      .example('./weather-data'),
    schema,
  }),
});

export const databases = list(databaseSettings, { min: 0, expected: 'a list of weather databases' })
  .default([])
  .description(
    'Where weather records are read. All are opened and probed at start; the first is the one that is read.',
  );

export function resolveDatabase(
  database: AcceptedBy<typeof databaseSettings>,
  base: PathBase,
): DatabaseConfig {
  const { name, schema } = database;
  if (database.driver === 'pglite')
    return { name, driver: 'pglite', schema, directory: resolvePath(database.directory, base) };
  return {
    name,
    driver: 'postgres',
    schema,
    urlEnv: database.url_env,
    poolSize: database.pool_size,
    statementTimeoutMs: resolveDuration(database.statement_timeout),
    lockTimeoutMs: resolveDuration(database.lock_timeout),
    connectTimeoutMs: resolveDuration(database.connect_timeout),
  };
}
