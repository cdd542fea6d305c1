import type { Row } from '../documents/rows.ts';

export interface Statements {
  query(text: string, values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Runs one or more statements that have no parameters. */
  run(text: string): Promise<void>;
}

export interface Transaction extends Statements {
  /** Runs `work` in a savepoint. If it throws, only its own changes are rolled back. */
  savepoint<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
}

export interface WritableDatabase extends Statements {
  /**
   * Runs a transaction on a single connection. If the connection is lost, all of its changes are rolled back.
   * There is only one transaction at a time.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The table to write to, and how to handle existing rows. */
export interface Upsert {
  table: string;
  key: readonly string[];
  /**
   * Either `keep` existing rows, or `replace` those that differ. A row whose `received_at` is the only
   * difference is left alone. Otherwise, `received_at` always increases, because readers use it to detect
   * changes.
   */
  onConflict: 'keep' | 'replace';
}

/**
 * Inserts or updates rows in a single statement. They must have the same columns. Returns how many rows were
 * inserted or updated.
 */
export async function upsert(statements: Statements, to: Upsert, rows: readonly Row[]): Promise<number> {
  const [first] = rows;
  if (first === undefined) return 0;
  const columns = Object.keys(first);
  const list = columns.join(', ');
  // Pass all rows as one JSON parameter. That works for any number of rows and all column types.
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

/**
 * Returns an SQL expression for a `received_at` that is later than the stored one, even if the document is
 * older.
 */
export function movedForward(received: string): string {
  return `case when ${received} > present.received_at then ${received} else greatest(now(), present.received_at) end`;
}

/**
 * Returns an SQL condition that compares each column with a parameter, starting at `$first`. Two nulls are
 * considered equal.
 */
export function same(columns: readonly string[], first = 1): string {
  return columns.map((column, index) => `${column} is not distinct from $${index + first}`).join(' and ');
}

/** Returns the `run_id` of a row. It is text, because a JavaScript number cannot hold all 64-bit integers. */
export function runIdIn(row: Readonly<Record<string, unknown>> | undefined): string {
  return String(row?.['run_id']);
}

/** Adds savepoints to the statements of an open transaction. They cannot be nested. */
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
