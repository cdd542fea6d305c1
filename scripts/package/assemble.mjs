/*
 * Puts together what npm publishes: the built program with all that it loads, what its users read, a manifest
 * without what only this repository needs, and the exact version of every package that comes with it.
 * Published from a directory of its own, so that nothing that lies about in a clone gets in.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import { programEntries } from '../bundle/entries.mjs';
import { withoutDeadLinks } from './links.mjs';

/** Beside the program; directories with all that is in them. */
const shipped = [
  ...['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md'],
  ...['deploy', 'docs', 'examples/ci', 'examples/config', 'man', 'schemas', 'templates'],
];
/** The machine code of a build is of no use to another Node.js, and maps and images to nobody who runs it. */
const leftOut = /\.(map|cache)$|\.tsbuildinfo|^docs\/images\//;
/** Files that modules read and do not import. */
const data = /\.(gz|json|lua|sql)$/;
/** What is a user's concern in the manifest; the rest is this repository's. */
const keptKeys = [
  ...['name', 'version', 'description', 'keywords', 'license', 'author', 'homepage', 'repository', 'bugs'],
  ...['type', 'engines', 'os', 'exports', 'bin', 'dependencies', 'optionalDependencies', 'publishConfig'],
];

/**
 * Makes the package in `directory`, which must be empty, with `more` keys in its manifest. Needs the build;
 * throws if it is not there.
 */
export async function assemble(directory, more = {}) {
  if (!existsSync('dist/bundle/waybill.cjs')) throw new Error('build first: npm run build');
  const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
  const files = [...(await programFiles(manifest)), ...shipped.flatMap(filesBelow)].filter(
    (file) => !leftOut.test(file),
  );
  for (const file of files) {
    mkdirSync(path.join(directory, path.dirname(file)), { recursive: true });
    cpSync(file, path.join(directory, file));
  }
  const has = new Set(files);
  for (const file of files.filter((name) => name.endsWith('.md'))) {
    const text = readFileSync(file, 'utf8');
    writeFileSync(path.join(directory, file), withoutDeadLinks(file, text, has));
  }
  const kept = Object.fromEntries(Object.entries(manifest).filter(([key]) => keptKeys.includes(key)));
  // npm puts them where man looks for them.
  kept.man = files.filter((file) => /^man\/.*\.1$/.test(file)).map((file) => `./${file}`);
  writeJson(path.join(directory, 'package.json'), { ...kept, ...more });
  writeJson(path.join(directory, 'npm-shrinkwrap.json'), shrinkwrap(kept));
}

/** The software bill of materials of an assembled package, as CycloneDX JSON. */
export function billOfMaterials(directory) {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only'];
  return execFileSync('npm', args, { cwd: directory, encoding: 'utf8', maxBuffer: 64 << 20 });
}

/** All that the programs and the library load, found as a bundler finds it, and what they read beside. */
async function programFiles({ bin, exports }) {
  const own = Object.values(exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.default]));
  const types = Object.values(exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.types]));
  const entryPoints = [...Object.values(bin), ...own, ...programEntries.map((entry) => `dist/${entry}.js`)];
  const { metafile } = await build({
    ...{ entryPoints, bundle: true, write: false, metafile: true, outdir: 'unused', logLevel: 'error' },
    ...{ platform: 'node', format: 'esm', packages: 'external' },
  });
  const loaded = Object.keys(metafile.inputs);
  const commands = filesBelow('dist/bundle').filter((file) => /\.cjs$/.test(file));
  const read = filesBelow('dist').filter((file) => data.test(file));
  const pages = filesBelow('dist/pages');
  return [...new Set([...loaded, ...commands, ...read, ...pages, ...types.flatMap(declarationsFrom)])].sort();
}

/** A declaration file, and those that it imports. */
function declarationsFrom(file, _index, _all, found = new Set()) {
  const name = path.posix.normalize(file);
  if (found.has(name)) return [...found];
  found.add(name);
  for (const [, specifier] of readFileSync(name, 'utf8').matchAll(
    /(?:from|import\()\s*['"](\.[^'"]+)['"]/g,
  )) {
    const imported = path.posix.join(path.posix.dirname(name), specifier.replace(/\.[jt]s$/, '.d.ts'));
    declarationsFrom(imported, 0, [], found);
  }
  return [...found];
}

/**
 * The lock file of this repository, without what only its development needs, or what a package can do with
 * and only development has.
 */
function shrinkwrap({ name, version, ...manifest }) {
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
  const { '': root, ...packages } = lock.packages;
  const kept = Object.entries(packages).filter(([, one]) => one.dev !== true && one.devOptional !== true);
  const { license, engines, bin, dependencies, optionalDependencies } = manifest;
  const head = { name, version, license, dependencies, optionalDependencies, bin, engines };
  if (root.version !== version) throw new Error('package-lock.json is of another version: npm install');
  return {
    ...{ name, version, lockfileVersion: lock.lockfileVersion, requires: true },
    packages: { '': head, ...Object.fromEntries(kept) },
  };
}

function filesBelow(place) {
  if (statSync(place).isFile()) return [place];
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.posix.join(entry.parentPath, entry.name))
    .sort();
}

function writeJson(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
}
