/*
 * `npm run package [-- DIRECTORY]`: makes the tarball that npm publishes, and its software bill of materials
 * (CycloneDX), in DIRECTORY (here, unless told otherwise), and prints the tarball's name. `--release`: only
 * where the version is ready to be published; the package then names the repository of the clone, or the one
 * of `--repository URL`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { assemble, billOfMaterials } from './assemble.mjs';
import { releaseProblems } from './release.mjs';
import { chosenRepository, repositoryKeys } from './repository.mjs';

const { target, isRelease, option } = given();
const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const repository = chosenRepository({ option, manifest, origin: isRelease ? originOfClone() : undefined });
if (isRelease) refuse('not ready to be published:', unready());
else if (option !== undefined && repository.problem !== undefined) refuse('', [repository.problem]);
const directory = mkdtempSync(path.join(tmpdir(), 'waybill-package-'));
try {
  await assemble(directory, repository.address === undefined ? {} : repositoryKeys(repository.address));
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', path.resolve(target)];
  const [{ filename }] = JSON.parse(execFileSync('npm', args, { cwd: directory, encoding: 'utf8' }));
  const bill = path.join(target, filename.replace(/\.tgz$/, '.cdx.json'));
  writeFileSync(bill, billOfMaterials(directory));
  console.log(path.join(target, filename));
} finally {
  rmSync(directory, { recursive: true, force: true });
}

function given() {
  const options = { release: { type: 'boolean', default: false }, repository: { type: 'string' } };
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length > 1) throw new TypeError(`one directory, not ${positionals.join(' and ')}`);
    return { target: positionals[0] ?? '.', isRelease: values.release, option: values.repository };
  } catch (error) {
    console.error(`npm run package: ${error.message}`);
    process.exit(2);
  }
}

function originOfClone() {
  const { status, stdout } = spawnSync('git', ['remote', 'get-url', 'origin'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

function unready() {
  const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);
  return releaseProblems({
    ...{ manifest, repository, changelog: readFileSync('CHANGELOG.md', 'utf8') },
    tags: git('tag', '--points-at', 'HEAD'),
    changes: git('status', '--porcelain').map((line) => line.slice(3)),
  });
}

function refuse(heading, problems) {
  if (problems.length === 0) return;
  console.error(heading === '' ? problems.join('\n') : [heading, ...problems].join('\n  '));
  process.exit(1);
}
