/*
 * Creates an archive of an empty embedded database. Unpacking it is three times as fast as letting PostgreSQL
 * create a database. It only depends on the version of PGlite.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PGlite } from '@electric-sql/pglite';

const file = 'dist/weather/feed/tables/empty-database.tar.gz';
const madeBy = `${file}.made-by`;
const { version } = JSON.parse(readFileSync('node_modules/@electric-sql/pglite/package.json', 'utf8'));

if (!existsSync(file) || !existsSync(madeBy) || readFileSync(madeBy, 'utf8') !== version) {
  const database = await PGlite.create();
  const archive = await database.dumpDataDir('gzip');
  await database.close();
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, Buffer.from(await archive.arrayBuffer()));
  writeFileSync(madeBy, version);
}
