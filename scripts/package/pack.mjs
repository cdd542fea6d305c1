/*
 * `npm run package [-- DIRECTORY]`: creates the npm package and, next to it, a bill of materials (CycloneDX),
 * and prints the name of the package. DIRECTORY is the current one by default.
 *
 * With `--release`, fails if the version is not ready to be published, and adds the URL of the repository to
 * package.json: the clone's origin, or the argument of `--repository URL`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { writeLocked } from './locked.mjs';
import { releaseProblems } from './release.mjs';
import { chosenRepository, repositoryKeys } from './repository.mjs';

const { target, isRelease, option } = readArguments();
const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const repository = chosenRepository({ option, manifest, origin: isRelease ? originOfClone() : undefined });
if (isRelease) refuse('not ready to be published:', unready());
else if (option !== undefined && repository.problem !== undefined) refuse('', [repository.problem]);
if (!existsSync('dist/bundle/waybill.cjs')) refuse('', ['the program is not built: npm run build']);
const tarball = pack('.', target);
const workspace = mkdtempSync(path.join(tmpdir(), 'waybill-package-'));
try {
  if (repository.address !== undefined) {
    const unpacked = unpack(tarball, path.join(workspace, manifest.name));
    addToManifest(unpacked, repositoryKeys(repository.address));
    pack(unpacked, target);
  }
  writeFileSync(tarball.replace(/\.tgz$/, '.cdx.json'), billOfMaterials(workspace));
} finally {
  rmSync(workspace, { recursive: true, force: true });
}
console.log(tarball);

/** Everything has already been built. Without `--ignore-scripts`, npm would do it again. */
function pack(directory, destination) {
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', path.resolve(destination)];
  const output = execFileSync('npm', args, { cwd: directory, encoding: 'utf8', maxBuffer: 64 << 20 });
  return path.join(destination, JSON.parse(output)[0].filename);
}

function unpack(tarball, directory) {
  mkdirSync(directory);
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', directory]);
  return directory;
}

function addToManifest(directory, keys) {
  const file = path.join(directory, 'package.json');
  const packed = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, `${JSON.stringify({ ...packed, ...keys }, null, 2)}\n`);
}

/**
 * Returns a CycloneDX document with the packages in the bundles, as JSON. npm lists everything in the lock
 * file, so packages that are not bundled have to be removed. It uses the name of the directory as the name of
 * our own package.
 */
function billOfMaterials(workspace) {
  const directory = path.join(workspace, 'bill', manifest.name);
  writeLocked(directory, manifest.devDependencies);
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const bill = JSON.parse(
    execFileSync('npm', args, { cwd: directory, encoding: 'utf8', maxBuffer: 64 << 20 }),
  );
  const bundled = new Set(JSON.parse(readFileSync('dist/.bundled.json', 'utf8')));
  const root = bill.metadata.component['bom-ref'];
  bill.components = bill.components.filter((component) => bundled.has(component['bom-ref']));
  bill.dependencies = bill.dependencies
    .filter(({ ref }) => ref === root || bundled.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => bundled.has(each)) }));
  return `${JSON.stringify(bill, null, 2)}\n`;
}

function readArguments() {
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
