/*
 * `npm run package [-- DIRECTORY]`: makes the tarball that npm publishes, and its software bill of materials
 * (CycloneDX), in DIRECTORY (here, unless told otherwise), and prints the tarball's name. `--release`: only
 * where the version is ready to be published.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { assemble, billOfMaterials } from './assemble.mjs';
import { releaseProblems } from './release.mjs';

const given = process.argv.slice(2);
const [target = '.'] = given.filter((argument) => argument !== '--release');
if (given.includes('--release')) refuseUnready();
const directory = mkdtempSync(path.join(tmpdir(), 'waybill-package-'));
try {
  await assemble(directory);
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', path.resolve(target)];
  const [{ filename }] = JSON.parse(execFileSync('npm', args, { cwd: directory, encoding: 'utf8' }));
  const bill = path.join(target, filename.replace(/\.tgz$/, '.cdx.json'));
  writeFileSync(bill, billOfMaterials(directory));
  console.log(path.join(target, filename));
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function refuseUnready() {
  const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);
  const problems = releaseProblems({
    manifest: JSON.parse(readFileSync('package.json', 'utf8')),
    changelog: readFileSync('CHANGELOG.md', 'utf8'),
    tags: git('tag', '--points-at', 'HEAD'),
    changes: git('status', '--porcelain').map((line) => line.slice(3)),
  });
  if (problems.length === 0) return;
  console.error(['not ready to be published:', ...problems].join('\n  '));
  process.exit(1);
}
