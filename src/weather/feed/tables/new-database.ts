import { readFile } from 'node:fs/promises';
import { PGlite } from '@electric-sql/pglite';

/**
 * The archive that the build places next to this module. When running from source, it exists only after a
 * build.
 */
const places = ['empty-database.tar.gz', '../../../../dist/weather/feed/tables/empty-database.tar.gz'];

/**
 * Creates an empty embedded database in `directory`, or in memory. Unpacks the bundled archive. If that is
 * missing, PostgreSQL initializes the database, which takes several seconds longer.
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
