import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { PGlite, Transaction as EmbeddedTransaction } from '@electric-sql/pglite';
import { WaybillError } from '../../../core/lib/errors.ts';
import { closeAll } from '../../../core/lib/lifecycle.ts';
import { lockDatabase } from '../../database/database-lock.ts';
import { type Statements, type Transaction, withSavepoints, type WritableDatabase } from './upsert.ts';

/**
 * Opens the embedded database in a directory. If there is none, creates it if `create` is set, and throws
 * `database_unavailable` otherwise. Also throws `database_unavailable` if another process has opened it.
 */
export async function openDirectory(
  directory: string,
  schema = 'weather',
  { create = true } = {},
): Promise<WritableDatabase> {
  if (!create && !(await holdsDatabase(directory))) throw notThere(directory);
  const unlock = await lockDatabase(directory);
  try {
    if (!(await holdsDatabase(directory))) await createDatabase(directory);
    const { PGlite } = await import('@electric-sql/pglite');
    const client = await PGlite.create(directory);
    await client.exec(`set search_path = "${schema}"; set timezone = 'UTC'`);
    return {
      ...embeddedTarget(client),
      close: async () => {
        await closeAll(() => client.close(), unlock);
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

/** Uses an embedded database that is already open. */
export function embeddedTarget(client: PGlite): Omit<WritableDatabase, 'close'> {
  const statements = (on: Pick<PGlite | EmbeddedTransaction, 'query' | 'exec'>): Statements => ({
    query: async (text, values) => (await on.query<Record<string, unknown>>(text, values)).rows,
    run: async (text) => {
      await on.exec(text);
    },
  });
  return {
    ...statements(client),
    transaction: async <T>(work: (transaction: Transaction) => Promise<T>) =>
      client.transaction((embedded) => work(withSavepoints(statements(embedded)))),
  };
}

/**
 * Creates the database in a temporary directory first, and then renames that. If the process were killed
 * halfway, the incomplete database could never be opened again.
 */
async function createDatabase(directory: string): Promise<void> {
  const parent = dirname(directory);
  const begun = `.${basename(directory)}.new-`;
  await mkdir(parent, { recursive: true, mode: 0o700 });
  for (const name of await readdir(parent))
    if (name.startsWith(begun)) await rm(join(parent, name), { recursive: true, force: true });
  const made = join(parent, `${begun}${process.pid}`);
  await mkdir(made, { mode: 0o700 });
  const client = await newDatabase(made);
  await client.close();
  // Fails if there is anything in the directory. An empty one is replaced.
  await rename(made, directory).catch((cause: unknown) => {
    throw new WaybillError('database_unavailable', `no embedded database can be made in ${directory}`, {
      hint: 'name a directory that is empty or does not exist',
      cause,
    });
  });
}

/** The build puts this archive next to the module. From source, it is only available after a build. */
const places = ['empty-database.tar.gz', '../../../../dist/weather/feed/tables/empty-database.tar.gz'];

/**
 * Creates an empty embedded database in `directory` or, by default, in memory. This is fast because it
 * unpacks an archive. Without the archive, PostgreSQL has to initialize the database, which takes several
 * seconds.
 */
export async function newDatabase(directory?: string): Promise<PGlite> {
  const { PGlite } = await import('@electric-sql/pglite');
  return PGlite.create({ dataDir: directory, loadDataDir: await emptyDatabase() });
}

async function emptyDatabase(): Promise<Blob | undefined> {
  for (const place of places) {
    const bytes = await readFile(new URL(place, import.meta.url)).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    });
    if (bytes !== undefined) return new Blob([bytes]);
  }
  return undefined;
}

async function holdsDatabase(directory: string): Promise<boolean> {
  const file = await stat(join(directory, 'PG_VERSION')).catch(() => null);
  return file?.isFile() === true;
}

function notThere(directory: string): WaybillError {
  return new WaybillError(
    'database_unavailable',
    `the embedded database does not exist: ${directory} holds none`,
    { hint: 'add --create-tables to create it, or correct "directory" of the database' },
  );
}
