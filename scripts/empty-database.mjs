/*
 * Makes an embedded database with nothing in it, which the feeder unpacks where it is to create one: to have
 * PostgreSQL make it takes three times as long. It depends on PGlite alone: another version makes it again.
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
