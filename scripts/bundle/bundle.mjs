/*
 * Creates all bundles in `dist`, and a file with the licenses of the packages in them. Afterwards, deletes
 * modules that are no longer needed because they are in a bundle.
 */
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { writeNotices } from './notices.mjs';

for (const entry of readdirSync('dist', { recursive: true, withFileTypes: true }))
  if (entry.isFile() && /\.js(?:\.map)?$/.test(entry.name)) rmSync(path.join(entry.parentPath, entry.name));

const metafiles = [];
for (const part of ['./commands.mjs', './programs.mjs', './pages.mjs'])
  metafiles.push((await import(part)).metafile);
writeNotices(metafiles);
