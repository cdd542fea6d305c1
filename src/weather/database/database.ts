import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/** Runs drizzle queries with either driver. */
export type Queries = PgDatabase<PgQueryResultHKT>;

/** A weather database, for reading only. All methods throw the errors of `databaseError`. */
export interface WeatherDatabase {
  readonly name: string;
  /**
   * Runs a single statement. `family` determines which share of the connections it uses, as with `snapshot`.
   */
  one<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  /** Runs several statements that all see the same data. */
  snapshot<T>(work: (queries: Queries) => Promise<T>, family?: string): Promise<T>;
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** A function that sends the statements of a read. */
export type ReadFunction<T> = (queries: Queries) => Promise<T>;

/** Connections to a server, which are opened when needed. All methods throw the driver's errors. */
export interface ServerConnections {
  one<T>(work: ReadFunction<T>): Promise<T>;
  /**
   * Closes all connections at once, even if statements are waiting on them. They are opened again when
   * needed.
   */
  renew(): void;
  /** Closes the connections, but first gives running statements some time to finish. */
  close(): Promise<void>;
}

/** The time that running statements get before their connections are closed, in seconds. */
export const closeSeconds = 5;
