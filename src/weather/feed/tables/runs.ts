import type { Row } from '../documents/rows.ts';
import type { Statements } from './target.ts';
import { same, upsert } from './upsert.ts';

/** The id of the run with this key, which is made where it is not there. */
export async function runOf(
  statements: Statements,
  table: string,
  row: Row,
  key: readonly string[],
): Promise<number> {
  await upsert(statements, { table, key, onConflict: 'keep' }, [row]);
  return idOf(statements, table, Object.fromEntries(key.map((column) => [column, row[column] ?? null])));
}

/** For runs whose table knows no key: the one with all these values, made where it is not there. */
export async function runWith(
  statements: Statements,
  table: string,
  row: Row,
): Promise<{ run_id: number; isNew: boolean }> {
  const columns = Object.keys(row);
  const [found] = await statements.query(
    `select run_id from ${table} where ${same(columns)} order by run_id limit 1`,
    Object.values(row),
  );
  if (found !== undefined) return { run_id: Number(found['run_id']), isNew: false };
  const [made] = await statements.query(
    `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => `$${index + 1}`).join(', ')}) returning run_id`,
    Object.values(row),
  );
  return { run_id: Number(made?.['run_id']), isNew: true };
}

async function idOf(statements: Statements, table: string, key: Row): Promise<number> {
  const [row] = await statements.query(
    `select run_id from ${table} where ${same(Object.keys(key))}`,
    Object.values(key),
  );
  return Number(row?.['run_id']);
}

export function withRun(run_id: number, rows: readonly Row[]): Row[] {
  return rows.map((row) => ({ run_id, ...row }));
}
