import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lockDirectory } from '../../src/core/weather/database/directory-lock.ts';
import type { Target } from './load.ts';

/** A PostgreSQL server, as a role that may create and write. */
export async function openServer(url: string, schema = 'weather'): Promise<Target> {
  const { default: postgres } = await import('postgres');
  const client = postgres(url, {
    max: 1,
    onnotice: () => undefined,
    connection: { search_path: schema, TimeZone: 'UTC' },
  });
  return {
    query: async (text, values) => [...(await client.unsafe(text, values as never[]))],
    run: async (text) => {
      await client.unsafe(text).simple();
    },
    close: () => client.end(),
  };
}

/** The embedded database of a directory, made where it is not there. */
export async function openDirectory(directory: string, schema = 'weather'): Promise<Target> {
  const { PGlite } = await import('@electric-sql/pglite');
  const unlock = await lockDirectory(directory);
  const client = await PGlite.create(directory);
  await client.exec(`set search_path = "${schema}"; set timezone = 'UTC'`);
  return {
    query: async (text, values) => (await client.query<Record<string, unknown>>(text, values)).rows,
    run: async (text) => {
      await client.exec(text);
    },
    close: async () => {
      await client.close();
      await unlock();
    },
  };
}

/** Makes the tables of the contract where they are not there: the only thing in the project that does. */
export async function createTables(target: Target, schema = 'weather'): Promise<void> {
  const [found] = await target.query(
    'select 1 as one from information_schema.tables where table_schema = $1 and table_name = $2',
    [schema, 'stations'],
  );
  if (found !== undefined) return;
  const contract = await readFile(join(import.meta.dirname, 'weather-contract.sql'), 'utf8');
  const named = contract
    .replaceAll(/schema weather\b/g, `schema "${schema}"`)
    .replace(/set search_path = weather;/, `set search_path = "${schema}";`);
  await target.run(`begin; ${named}; commit;`);
}
