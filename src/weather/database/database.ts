import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Runs the queries that drizzle builds; the same for every driver. */
export type Queries = PgDatabase<PgQueryResultHKT>;

/** A weather database, opened for reading alone. What its methods throw has passed `databaseError`. */
export interface WeatherDatabase {
  readonly name: string;
  /**
   * For one statement, which is a snapshot by itself. `family` is whose share of the connections it uses, as
   * with `snapshot`.
   */
  one<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** For several statements: they see one and the same snapshot. */
  snapshot<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Asks the database for a sign of life. */
  probe(): Promise<void>;
  close(): Promise<void>;
}
