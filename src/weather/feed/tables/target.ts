/** Statements, of either driver. */
export interface Statements {
  query(text: string, values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Several statements without values. */
  run(text: string): Promise<void>;
}

/** Statements of a transaction. */
export interface Transaction extends Statements {
  /** Where `work` throws, what it did is undone, and the transaction goes on. */
  savepoint<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
}

/** A weather database that is open for writing. */
export interface Target extends Statements {
  /**
   * All or nothing, on one connection: where it is lost half-way, nothing of it stays. Transactions of one
   * target wait for each other.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}
