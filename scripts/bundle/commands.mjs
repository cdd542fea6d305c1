/*
 * Bundles the command line. Most of its startup time goes into finding, reading and compiling hundreds of
 * small files. This turns them into a few files, each with the machine code that V8 has compiled for it:
 *
 *   start     the names, options and help of all commands
 *   publish   what publishing needs
 *   releases  what switching back to an earlier release needs in addition
 *   judge     what reporting a mistake in the configuration needs in addition
 *   others    everything else that is small; the large parts (S3, SFTP, tracing) have files of their own
 *
 * Long-running programs are bundled by `programs.mjs`. Peer dependencies are left in node_modules.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build, transform } from 'esbuild';
import { keepMachineCode } from './machine-code.mjs';
import { emittedName, ownCode } from './sources.mjs';

/** These commands run for a long time, so they are loaded as ordinary modules. */
const longRunning = /\/(serve|worker|read-weather|feed)\.ts$/;
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
    // Commander imports this in order to start external programs. We do not need that, so only load it on
    // demand.
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

/**
 * Splits the code into parts. Returns the parts, each of which is shared by the same set of commands, and
 * which of them every command needs at startup.
 */
async function split() {
  const { outputFiles, metafile } = await build({
    ...settings,
    // Keep function names for readable stack traces.
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

/** Returns a JavaScript expression for the URL of a module. The bundle is in `dist/bundle`. */
function urlOf(emitted) {
  return `(require('node:url').pathToFileURL(require('node:path').join(__dirname, '../${emitted}')).href)`;
}

/**
 * Writes the files. Each one contains an object with its parts as functions. The first one also contains data
 * that the program needs to load the others.
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

/**
 * Reports whether this version of V8 has the flag that `start.cjs` sets. It may be removed in later versions.
 */
function canPostpone() {
  return spawnSync(process.execPath, ['--interrupt-budget=4000000', '--version']).status === 0;
}

async function asFunction(name) {
  const module = text.get(name).replace(/^#!.*/, '');
  // With a name that ends in `.mjs`, default imports work as in an ES module.
  const { code } = await transform(module, { ...settings, format: 'cjs', sourcefile: `${name}.mjs` });
  const body = code.replaceAll(/\bimport\(/g, 'importPart(');
  return `${JSON.stringify(`./${name}`)}(exports,require,module,__dirname,importPart){${body}}`;
}
