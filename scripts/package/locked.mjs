/*
 * Installs packages in another directory, in the versions from `package-lock.json`. Run as `node
 * scripts/package/locked.mjs DIRECTORY`, it installs the optional packages, for the container image.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/**
 * Creates a directory with a package.json for these dependencies and the lock file. Throws an error if the
 * lock file is outdated.
 */
export function writeLocked(directory, dependencies) {
  const { name, version, license } = readJson('package.json');
  const lock = readJson('package-lock.json');
  if (lock.version !== version) throw new Error('package-lock.json is of another version: npm install');
  for (const one of Object.values(lock.packages)) delete one.dev;
  const own = { name, version, license, dependencies };
  lock.packages[''] = own;
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify(own));
  writeFileSync(path.join(directory, 'package-lock.json'), JSON.stringify(lock));
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , directory] = process.argv;
  writeLocked(directory, readJson('package.json').peerDependencies);
  const args = ['install', '--ignore-scripts', '--no-fund', '--no-audit'];
  execFileSync('npm', args, { cwd: directory, stdio: 'inherit' });
}
