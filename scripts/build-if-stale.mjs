/*
 * Runs a build before `npm test` if a source file has changed since the last one. With `--built`, remembers
 * the state of the sources after a build. `npm ci` does this as well, so the first test run does not build
 * again.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const stamp = 'dist/.built-from';
const built = digestOf(inputs());

if (process.argv.includes('--built')) writeFileSync(stamp, built);
else if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== built)
  process.exitCode = spawnSync('npm', ['run', 'build'], { stdio: 'inherit' }).status ?? 1;

/** Returns all files that affect the build, sorted. */
function inputs() {
  const sources = readdirSync('src', { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const scripts = ['scripts', 'scripts/bundle'].flatMap((directory) =>
    readdirSync(directory)
      .filter((name) => /\.[mc]js$/.test(name))
      .map((name) => path.join(directory, name)),
  );
  const settings = readdirSync('.').filter((name) => /^(package-lock|package|tsconfig.*)\.json$/.test(name));
  return [...sources, ...scripts, ...settings].sort();
}

function digestOf(files) {
  const hash = createHash('sha256').update(process.version);
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}
