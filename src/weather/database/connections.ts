import type { Queries } from './database.ts';

/** Work on a database, by the statements that it sends. */
export type Work<T> = (queries: Queries) => Promise<T>;

/** Connections to one server, opened as they are needed. What they throw is the driver's. */
export interface Connections {
  /** For one statement. */
  one<T>(work: Work<T>): Promise<T>;
  /** Ends every connection at once, with what waits for an answer on it: the next read has new ones. */
  renew(): void;
  /** Waits for a while for what is under way. */
  close(): Promise<void>;
}

/** Seconds for which statements that are under way may go on when their connections are closed. */
export const closeSeconds = 5;
