import type { Row } from '../documents/rows.ts';

/** Runs statements, with either driver. */
export interface Statements {
  query(text: string, values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Runs several statements without parameters. */
  run(text: string): Promise<void>;
}

/** The statements of a transaction. */
export interface Transaction extends Statements {
  /** Runs `work`. If it throws, its changes are undone and the transaction continues. */
  savepoint<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
}

/** A weather database that is open for writing. */
export interface Target extends Statements {
  /**
   * Runs a transaction on a single connection. If the connection is lost, no change remains. Transactions of
   * one target wait for each other.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The table for the rows, and how existing rows are handled. */
export interface Upsert {
  table: string;
  /** The columns of the table's key. */
  key: readonly string[];
  /**
   * Whether to `keep` existing rows, or `replace` rows that differ. A different `received_at` alone does not
   * count. If another column differs, `received_at` moves forward, because readers use it to detect changes.
   */
  onConflict: 'keep' | 'replace';
}

/**
 * Writes rows that have the same columns, in a single statement. Returns how many rows were inserted or
 * changed.
 */
export async function upsert(statements: Statements, to: Upsert, rows: readonly Row[]): Promise<number> {
  const [first] = rows;
  if (first === undefined) return 0;
  const columns = Object.keys(first);
  const list = columns.join(', ');
  // The rows are passed as JSON, so that any number of rows of any type is a single parameter.
  const written = await statements.query(
    `insert into ${to.table} as present (${list})
     select ${list} from jsonb_populate_recordset(null::${to.table}, $1::text::jsonb)
     on conflict (${to.key.join(', ')}) do ${actionOf(to, columns)} returning 1 as one`,
    [JSON.stringify(rows)],
  );
  return written.length;
}

function actionOf({ key, onConflict }: Upsert, columns: readonly string[]): string {
  const values = columns.filter((column) => !key.includes(column) && column !== 'received_at');
  if (onConflict === 'keep' || values.length === 0) return 'nothing';
  const sets = values.map((column) => `${column} = excluded.${column}`);
  if (columns.includes('received_at')) sets.push(`received_at = ${movedForward('excluded.received_at')}`);
  const [present, excluded] = ['present', 'excluded'].map((row) =>
    values.map((column) => `${row}.${column}`).join(', '),
  );
  return `update set ${sets.join(', ')} where (${present}) is distinct from (${excluded})`;
}

/** Returns SQL for a time of receipt that is later than the stored one, regardless of the document's time. */
export function movedForward(received: string): string {
  return `case when ${received} > present.received_at then ${received} else greatest(now(), present.received_at) end`;
}

/**
 * Returns conditions that compare the columns with the parameters $1, $2, … starting at `first`, treating
 * nulls as equal.
 */
export function same(columns: readonly string[], first = 1): string {
  return columns.map((column, index) => `${column} is not distinct from $${index + first}`).join(' and ');
}

/** Wraps the statements of an open transaction, with savepoints nested at most once. */
export function withSavepoints(statements: Statements): Transaction {
  return {
    ...statements,
    async savepoint(work) {
      await statements.run('savepoint part');
      try {
        return await work(statements);
      } catch (error) {
        await statements.run('rollback to savepoint part');
        throw error;
      }
    },
  };
}
