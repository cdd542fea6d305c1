import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Runs the queries that drizzle builds; the same for every driver. */
export type Queries = PgDatabase<PgQueryResultHKT>;

/** A read-only weather database. Its methods throw errors of `databaseError`. */
export interface WeatherDatabase {
  readonly name: string;
  /**
   * Runs one statement, which is a snapshot by itself. `family` selects the share of the connections, also
   * for `snapshot`.
   */
  one<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Runs several statements on one consistent snapshot. */
  snapshot<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Asks the database for a sign of life. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** Work on a database, by the statements that it sends. */
export type Work<T> = (queries: Queries) => Promise<T>;

/** Connections to one server, opened on demand. Methods throw the driver's errors. */
export interface Connections {
  /** Runs one statement. */
  one<T>(work: Work<T>): Promise<T>;
  /** Closes every connection immediately, including pending requests. The next read opens new ones. */
  renew(): void;
  /** Closes the connections after a limited wait for statements in progress. */
  close(): Promise<void>;
}

/** Seconds that statements in progress may take after a close. */
export const closeSeconds = 5;
