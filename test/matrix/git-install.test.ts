import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { packWaybill } from '../cli/packed.ts';

/* npm installs the package from the URL of a Git repository: it clones, builds and packs it. */

const run = promisify(execFile);

t.test('an installation from a Git URL has the files of the package', async (t) => {
  const place = t.testdir({ packed: {}, unpacked: {}, prefix: {} });
  const prefix = path.join(place, 'prefix');
  const repository = path.join(place, 'repository.git');
  await run('git', ['clone', '--quiet', '--bare', '.', repository]);
  writeFileSync(path.join(prefix, 'package.json'), '{"name":"site","version":"1.0.0"}');
  // npm is silent while it clones and builds, and a silent test file is killed.
  const progress = setInterval(() => t.comment('npm installs'), 30_000);
  const args = ['install', `git+${pathToFileURL(repository).href}`, '--no-audit', '--no-fund'];
  await run('npm', args, { cwd: prefix, maxBuffer: 64 << 20 }).finally(() => clearInterval(progress));

  const installed = path.join(prefix, 'node_modules/waybill');
  const tarball = packWaybill(path.join(place, 'packed'));
  await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', path.join(place, 'unpacked')]);
  t.same(filesBelow(installed), filesBelow(path.join(place, 'unpacked')));

  mkdirSync(path.join(place, 'site'));
  writeFileSync(path.join(place, 'site/page.html'), '<p>');
  const bin = path.join(prefix, 'node_modules/.bin/waybill');
  t.match((await run(bin, ['--version'])).stdout, /^\d+\.\d+\.\d+/);
  await run(bin, ['pack', path.join(place, 'site'), '--manifest-only']);
});

/** The files of a package, sorted. */
function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .sort();
}
