/*
 * Bundles the command line. Starting it is mostly finding, reading and compiling hundreds of small files.
 * Here they become a few, and V8's machine code is kept next to each:
 *
 *   start     names, flags and help
 *   publish   what a publication loads
 *   releases  what going back to an earlier release loads in addition
 *   judge     what a mistake in a configuration loads in addition
 *   others    everything else that is small; each large part (S3, SFTP, tracing) has a file of its own
 *
 * The long-running programs are bundled by `programs.mjs`. Peer dependencies stay in node_modules.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build, transform } from 'esbuild';
import { keepMachineCode } from './machine-code.mjs';
import { emittedName, ownCode } from './sources.mjs';

/** Long-running commands start as ordinary modules. */
const longRunning = /\/(serve|worker|weather|feed)\.ts$/;
const directory = 'dist/bundle';
const program = `${directory}/waybill.cjs`;
const settings = { platform: 'node', target: 'node20.19', minifyWhitespace: true, minifySyntax: true };

const commands = {
  name: 'commands',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: longRunning }, ({ path: specifier, importer, kind }) => {
      const file = emittedName(path.resolve(path.dirname(importer), specifier));
      return kind === 'dynamic-import' && /^cli\/(commands|daemon)\//.test(file)
        ? { path: `../${file}`, external: true }
        : undefined;
    });
    // Commander would load it for each command to start external programs, which are not used here.
    onResolve({ filter: /^node:child_process$/ }, ({ path: specifier, importer }) =>
      importer.includes('/node_modules/commander/') ? { path: specifier, namespace: 'later' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'later' }, ({ path: specifier }) => ({
      contents: `module.exports = { spawn: (...given) => require('${specifier}').spawn(...given) };`,
    }));
  },
};

rmSync(directory, { recursive: true, force: true });
mkdirSync(directory, { recursive: true });
copyFileSync('scripts/bundle/start.cjs', program);
chmodSync(program, 0o755);
mkdirSync('dist/cli', { recursive: true });
writeFileSync('dist/cli/main.js', "#!/usr/bin/env node\nimport '../bundle/waybill.cjs';\n");
rmSync('dist/cli/main.js.map', { force: true });

const { text, needs, metafile } = await split();
export { metafile };
const starting = needs('main.js');
const rest = [...text.keys()].filter((name) => !starting.has(name));
await write({ start: starting, others: rest }, []);
const loaded = keepMachineCode(program);
const groups = { publish: [], releases: [], judge: [], others: [] };
for (const name of rest) {
  const group = Object.keys(loaded).find((each) => loaded[each].parts.includes(`./${name}`));
  groups[group ?? 'others'].push(name);
}
const isLarge = (name) => text.get(name).length > 40_000;
const large = groups.others.filter(isLarge);
groups.others = groups.others.filter((name) => !isLarge(name));
for (const name of large) groups[path.basename(name, '.js')] = [name];
await write({ start: starting, ...groups }, loaded.publish.builtins);
keepMachineCode(program);

/** The code as parts, each shared by the same commands, and the parts that each command loads at startup. */
async function split() {
  const { outputFiles, metafile } = await build({
    ...settings,
    // Keep names for readable stack traces.
    entryPoints: ['src/cli/main.ts'],
    outdir: directory,
    write: false,
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    plugins: [commands, ownCode(urlOf)],
    logLevel: 'warning',
  });
  const text = new Map(outputFiles.map((file) => [path.basename(file.path), file.text]));
  const importsOf = (name) =>
    metafile.outputs[`${directory}/${name}`].imports
      .filter(({ kind, external }) => kind === 'import-statement' && external !== true)
      .map((imported) => path.basename(imported.path));
  const needs = (name, found = new Set()) => {
    if (!found.has(name)) for (const other of importsOf((found.add(name), name))) needs(other, found);
    return found;
  };
  return { text, needs, metafile };
}

/** Returns an expression for the location of a module, relative to `dist/bundle`. */
function urlOf(emitted) {
  return `(require('node:url').pathToFileURL(require('node:path').join(__dirname, '../${emitted}')).href)`;
}

/**
 * Each file is an object with its parts as functions. The first file also has the data that the program
 * needs.
 */
async function write(files, builtins) {
  const places = Object.entries(files).flatMap(([file, names]) =>
    [...names].map((name) => [`./${name}`, file]),
  );
  const known = {
    placeOf: Object.fromEntries(places),
    builtins,
    v8OfBuild: canPostpone() ? process.versions.v8 : null,
  };
  for (const [file, names] of Object.entries(files)) {
    const parts = await Promise.all([...names].map(asFunction));
    const more = file === 'start' ? `...${JSON.stringify(known)},` : '';
    rmSync(`${directory}/${file}.cjs.${process.version}-${process.arch}.cache`, { force: true });
    writeFileSync(`${directory}/${file}.cjs`, `({${more}parts:{\n${parts.join(',\n')}\n}})`);
  }
}

/** Whether this V8 knows the flag that `start.cjs` sets. Later versions have no such budget. */
function canPostpone() {
  return spawnSync(process.execPath, ['--interrupt-budget=4000000', '--version']).status === 0;
}

async function asFunction(name) {
  const module = text.get(name).replace(/^#!.*/, '');
  // With this name, default imports behave as in an ES module.
  const { code } = await transform(module, { ...settings, format: 'cjs', sourcefile: `${name}.mjs` });
  const body = code.replaceAll(/\bimport\(/g, 'importPart(');
  return `${JSON.stringify(`./${name}`)}(exports,require,module,__dirname,importPart){${body}}`;
}
