import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { recognise } from '../../src/weather/feed/documents/recognise.ts';
import { NothingToLoad } from '../../src/weather/feed/documents/rows.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { load } from '../../src/weather/feed/tables/load-document.ts';
import type { WritableDatabase } from '../../src/weather/feed/tables/upsert.ts';

export const samples = 'test/fixtures/weather';

/** Loads one sample. */
export async function feed(target: WritableDatabase, file: string): Promise<void> {
  await load(target, recognise(await readFile(join(samples, file), 'utf8'), basename(file)).records);
}

/** Creates the tables and loads every sample that has data. Returns how many did, and how many did not. */
export async function feedAll(target: WritableDatabase): Promise<{ loaded: number; refused: number }> {
  await createTables(target);
  const count = { loaded: 0, refused: 0 };
  for (const entry of (await readdir(samples, { recursive: true, withFileTypes: true })).sort((a, b) =>
    a.name.localeCompare(b.name),
  )) {
    if (!entry.isFile() || entry.name.endsWith('.md')) continue;
    try {
      const text = await readFile(join(entry.parentPath, entry.name), 'utf8');
      const { records, leftOut } = recognise(text, entry.name);
      if (leftOut.length > 0) throw new Error(`${entry.name}: ${leftOut.join(', ')}`);
      await load(target, records);
      count.loaded += 1;
    } catch (error) {
      if (!(error instanceof NothingToLoad)) throw error;
      count.refused += 1;
    }
  }
  return count;
}

/** Rows of every table, to check that a second load changes nothing. */
export async function countRows(target: WritableDatabase): Promise<Record<string, unknown>> {
  const tables = await target.query(
    "select table_name from information_schema.tables where table_schema = 'weather' order by 1",
    [],
  );
  const counts: Record<string, unknown> = {};
  for (const { table_name: name } of tables) {
    const [row] = await target.query(`select count(*)::int as rows from ${String(name)}`, []);
    counts[String(name)] = row?.['rows'];
  }
  return counts;
}
