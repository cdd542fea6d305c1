/*
 * The exact version of every package that an installation brings along, as `npm-shrinkwrap.json`. npm
 * installs everything in a published one, so it has no packages of development. `prepack` writes it into the
 * clone and `postpack` removes it: there it would take the place of `package-lock.json`.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const name = 'npm-shrinkwrap.json';

/** Writes the file into a directory. Throws if `package-lock.json` is of another version. */
export function writeShrinkwrap(directory) {
  const { version, dependencies, bin, engines, license, name: own } = readJson('package.json');
  const lock = readJson('package-lock.json');
  const { '': root, ...packages } = lock.packages;
  if (root.version !== version) throw new Error('package-lock.json is of another version: npm install');
  const kept = Object.entries(packages).filter(([, one]) => one.dev !== true && one.devOptional !== true);
  const head = { name: own, version, license, dependencies, bin, engines };
  const shrinkwrap = {
    ...{ name: own, version, lockfileVersion: lock.lockfileVersion, requires: true },
    packages: { '': head, ...Object.fromEntries(kept) },
  };
  writeFileSync(path.join(directory, name), `${JSON.stringify(shrinkwrap, null, 2)}\n`);
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === '--remove') rmSync(name, { force: true });
  else writeShrinkwrap('.');
}
