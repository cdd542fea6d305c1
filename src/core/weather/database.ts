import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';
import type { DatabaseConfig } from '../config/config.ts';
import type { Secrets } from '../config/secrets.ts';

/** Runs the queries that drizzle builds; the same for every driver. */
export type Queries = PgDatabase<PgQueryResultHKT>;

/** A weather database, opened for reading alone. What its methods throw has passed `databaseError`. */
export interface WeatherDatabase {
  readonly name: string;
  /** For one statement, which is a snapshot by itself. */
  one<T>(work: (queries: Queries) => Promise<T>): Promise<T>;
  /** For several statements: they see one and the same snapshot. */
  snapshot<T>(work: (queries: Queries) => Promise<T>): Promise<T>;
  /** Asks the database for a sign of life. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** Opens without probing. A driver and its package are loaded only where they are configured. */
export async function openDatabase(config: DatabaseConfig, secrets: Secrets): Promise<WeatherDatabase> {
  if (config.driver === 'pglite') {
    const { openPglite } = await import('./database-pglite.ts');
    return openPglite(config);
  }
  const url = secrets.require(config.urlEnv, `database "${config.name}"`);
  const { openPostgres } = await import('./database-postgres.ts');
  return openPostgres(config, url);
}
