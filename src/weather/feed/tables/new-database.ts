import { readFile } from 'node:fs/promises';
import { PGlite } from '@electric-sql/pglite';

/**
 * The archive that the build puts next to this module. When running from source, it exists only after a
 * build.
 */
const places = ['empty-database.tar.gz', '../../../../dist/weather/feed/tables/empty-database.tar.gz'];

/**
 * An embedded database with nothing in it, which is made in `directory`, or in memory. It is unpacked from
 * the one that the build has made, or, where that is not there, made by PostgreSQL, which takes seconds more.
 */
export async function newDatabase(directory?: string): Promise<PGlite> {
  const archive = await emptyDatabase();
  return PGlite.create({
    ...(directory === undefined ? {} : { dataDir: directory }),
    ...(archive === undefined ? {} : { loadDataDir: archive }),
  });
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
