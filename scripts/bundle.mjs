/*
 * Starting the command line is mostly finding, reading and compiling hundreds of small files. This puts what
 * its commands need to start (our own code and the packages that they all load) into one file, and keeps
 * beside it the machine code that V8 makes of it. Everything else stays as it is: packages of node_modules,
 * loaded when they are needed, and the long-running programs, which `bundle-modules.mjs` bundles.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';

/** The packages that every configured command loads; with them whatever they import themselves. */
const inlined = new Set([
  'canonicalize',
  'cli-progress',
  'commander',
  'fastest-levenshtein',
  'ipaddr.js',
  'joi',
  'jsonc-parser',
  'mime',
  'nanoid',
  'p-map',
  'picocolors',
  'yaml',
]);
/** Long-running commands start as ordinary modules. */
const asModules = /\/(serve|worker|weather|feed)\.ts$/;

const source = path.resolve('src');

const ownCode = {
  name: 'own-code',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: asModules }, ({ path: specifier, importer, kind }) => {
      const file = path.relative(source, path.resolve(path.dirname(importer), specifier));
      return kind === 'dynamic-import' && file.startsWith('cli/commands/')
        ? { path: `../${file.replace(/\.ts$/, '.js')}`, external: true }
        : undefined;
    });
    onResolve({ filter: /^[^./]/ }, ({ path: specifier, importer }) => {
      const name = specifier
        .split('/')
        .slice(0, specifier.startsWith('@') ? 2 : 1)
        .join('/');
      const isOurs = importer.startsWith(source + path.sep);
      return isOurs && !inlined.has(name) ? { external: true } : undefined;
    });
    // What its `main` names loads its parts in a way that cannot be bundled.
    onResolve({ filter: /^jsonc-parser$/ }, () => ({
      path: path.resolve('node_modules/jsonc-parser/lib/esm/main.js'),
      sideEffects: false,
    }));
    // A module finds the files that belong to it from where tsc put it, and not from where the bundle is.
    onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
      const emitted = path.relative(source, file).split(path.sep).join('/').replace(/\.ts$/, '.js');
      const place = `require('node:path').join(__dirname, ${JSON.stringify(`../${emitted}`)})`;
      const url = `require('node:url').pathToFileURL(${place}).href`;
      return { loader: 'ts', contents: readFileSync(file, 'utf8').replaceAll('import.meta.url', `(${url})`) };
    });
  },
};

rmSync('dist/bundle', { recursive: true, force: true });
mkdirSync('dist/bundle', { recursive: true });
await build({
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/bundle/cli.cjs',
  bundle: true,
  format: 'cjs',
  platform: 'node',
  target: 'node20.19',
  minifyWhitespace: true,
  // Names stay: they are what a stack trace tells.
  minifySyntax: true,
  plugins: [ownCode],
  logLevel: 'warning',
});
const bundled = readFileSync('dist/bundle/cli.cjs', 'utf8').replace(/^#!.*/, '');
// Kept machine code forgets who loads modules for it: what is left to import goes through the loader's own
// function.
writeFileSync('dist/bundle/cli.cjs', bundled.replaceAll(/\bimport\(/g, 'importModule('));
copyFileSync('scripts/cli-main.mjs', 'dist/cli/main.js');
keepMachineCode();

/**
 * Runs one publication with the new program, once more with one file changed, and once more with nothing to
 * do, and keeps what V8 compiled for all of them.
 */
function keepMachineCode() {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-build-'));
  try {
    const bundle = (readme) => {
      const files = { 'a/readme.txt': readme, 'a/page.html': '<p>', 'b/picture.png': 'x' };
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(path.dirname(path.join(directory, 'source', name)), { recursive: true });
        writeFileSync(path.join(directory, 'source', name), text);
      }
      const listed = Object.entries(files).map(([name, text]) => ({
        path: name,
        size: text.length,
        digest: `sha256:${createHash('sha256').update(text).digest('hex')}`,
      }));
      const manifest = { schema_version: 1, created: '2026-01-01T00:00:00Z', files: listed };
      writeFileSync(path.join(directory, 'source/manifest.json'), JSON.stringify(manifest));
    };
    const config = path.join(directory, 'config.yml');
    writeFileSync(
      config,
      'pipelines:\n  - {id: p, source: {backend: local, path: ./source}, destinations: [{id: d, backend: local, path: ./public}]}\n',
    );
    for (const [round, readme] of Object.entries({
      first: 'hello',
      second: 'hello again',
      third: 'hello again',
    })) {
      bundle(readme);
      const { status, stderr } = spawnSync(
        process.execPath,
        ['dist/cli/main.js', 'run', '--config', config],
        {
          env: { ...process.env, WAYBILL_BUILD_CODE_CACHE: path.resolve('dist/bundle/cli.cjs.cache') },
          encoding: 'utf8',
        },
      );
      if (status !== 0) throw new Error(`the ${round} run of the new program failed:\n${stderr}`);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
