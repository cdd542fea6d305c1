import { readFile } from 'node:fs/promises';
import { PGlite } from '@electric-sql/pglite';

/** The build puts this archive next to the module. From source, it is only available after a build. */
const places = ['empty-database.tar.gz', '../../../../dist/weather/feed/tables/empty-database.tar.gz'];

/**
 * Creates an empty embedded database in `directory` or, by default, in memory. This is fast because it
 * unpacks an archive. Without the archive, PostgreSQL has to initialize the database, which takes several
 * seconds.
 */
export async function newDatabase(directory?: string): Promise<PGlite> {
  const archive = await emptyDatabase();
  return PGlite.create({ dataDir: directory, loadDataDir: archive });
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
