import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Runs the queries that drizzle builds. It is the same for every driver. */
export type Queries = PgDatabase<PgQueryResultHKT>;

/** A read-only weather database. Its methods throw the errors of `databaseError`. */
export interface WeatherDatabase {
  readonly name: string;
  /**
   * Runs a single statement, which is a snapshot in itself. `family` selects the share of the connections, as
   * it does for `snapshot`.
   */
  one<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Runs several statements on a consistent snapshot. */
  snapshot<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Checks that the database responds. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** Work on a database, defined by the statements that it sends. */
export type Work<T> = (queries: Queries) => Promise<T>;

/** Connections to one server, opened on demand. Methods throw the driver's errors. */
export interface Connections {
  /** Runs one statement. */
  one<T>(work: Work<T>): Promise<T>;
  /**
   * Closes every connection immediately, including those with pending requests. The next read opens new ones.
   */
  renew(): void;
  /** Closes the connections after waiting a limited time for statements in progress. */
  close(): Promise<void>;
}

/** How many seconds statements in progress may take after a close. */
export const closeSeconds = 5;
