import type { DatabaseConfig } from './config.ts';
import type { DatabaseDocument } from './document.ts';
import { parseDuration } from '../settings/units.ts';
import { resolvePath, type PathBase } from '../settings/values.ts';

export function resolveDatabase(database: DatabaseDocument, base: PathBase): DatabaseConfig {
  const { name, schema } = database;
  if (database.driver === 'pglite')
    return { name, driver: 'pglite', schema, directory: resolvePath(database.directory, base) };
  return {
    name,
    driver: 'postgres',
    schema,
    urlEnv: database.url_env,
    poolSize: database.pool_size,
    statementTimeoutMs: parseDuration(database.statement_timeout) ?? 0,
    connectTimeoutMs: parseDuration(database.connect_timeout) ?? 0,
  };
}
