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

/** Work on a database, by the statements that it sends. */
export type Work<T> = (queries: Queries) => Promise<T>;

/** Connections to one server, opened as they are needed. What they throw is the driver's. */
export interface Connections {
  /** For one statement. */
  one<T>(work: Work<T>): Promise<T>;
  /** Ends every connection at once, with what waits for an answer on it: the next read has new ones. */
  renew(): void;
  /** Closes the connections after a limited wait for statements in progress. */
  close(): Promise<void>;
}

/** Seconds for which statements that are under way may go on when their connections are closed. */
export const closeSeconds = 5;
