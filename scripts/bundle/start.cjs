#!/usr/bin/env node
/*
 * The `waybill` command. Runs the bundled command line with machine code that was stored by the build. This
 * is a CommonJS module, because those start faster than ES modules. With a different version of Node.js or on
 * a different processor, V8 compiles the source again, which takes about 40 ms. We check the exact Node.js
 * version ourselves: V8 only rejects code from other releases of V8, but Node.js patches V8 within a release,
 * and code from 20.20 misbehaves in 20.19.
 */
const { readFileSync } = require('node:fs');
const vm = require('node:vm');

/**
 * The parts in the files that `scripts/bundle/commands.mjs` creates. A file is loaded when one of its parts
 * is needed.
 */
const parts = new Map();
const modules = new Map();
/** The files that have been loaded, and whether the optimizing compiler was already postponed. */
const scripts = new Map();
let isPostponed = false;
const { placeOf, builtins, v8OfBuild } = load('start');

// Set by the build, to store the code of all functions that have run.
if (process.env.WAYBILL_BUILD_KEEP !== undefined) process.on('exit', keepMachineCode);

requirePart('./main.js');

/** Replaces `require` in a part. `./NAME` is another part; everything else is left to Node.js. */
function requirePart(name) {
  if (!name.startsWith('./')) return require(name);
  const known = modules.get(name);
  if (known !== undefined) return known.exports;
  if (!parts.has(name)) load(placeOf[name]);
  const module = { exports: {} };
  modules.set(name, module);
  parts.get(name)(module.exports, requirePart, module, __dirname, importPart);
  return module.exports;
}

/** Replaces `import()` in a part, because code from the cache cannot load modules itself. */
async function importPart(name) {
  return name.startsWith('./') ? requirePart(name) : import(name);
}

function load(name) {
  if (name !== 'start' && name !== 'others') postponeOptimizing();
  const file = `${__dirname}/${name}.cjs`;
  const script = new vm.Script(readFileSync(file, 'utf8'), {
    filename: file,
    cachedData: readIfThere(keptOf(file)),
  });
  scripts.set(file, { script, isPostponed });
  const loaded = script.runInThisContext();
  for (const [part, run] of Object.entries(loaded.parts)) parts.set(part, run);
  return loaded;
}

/**
 * Makes V8 wait longer before it optimizes code, since short commands exit before that pays off. By default,
 * it starts after a sixtieth of this budget. The flag is only set if this is the same V8 as in the build,
 * where it was tested. Stored machine code only works with the same flags, so Node.js's own modules have to
 * be loaded first.
 */
function postponeOptimizing() {
  if (isPostponed || process.versions.v8 !== v8OfBuild) return;
  isPostponed = true;
  for (const name of builtins) require(name);
  require('node:v8').setFlagsFromString('--interrupt-budget=4000000');
}

/**
 * Stores the code that was compiled with the current flags. Modules that were loaded before the flag was set
 * are stored when a command runs without it.
 */
function keepMachineCode() {
  const { writeFileSync } = require('node:fs');
  const { builtinModules } = require('node:module');
  for (const [file, loaded] of scripts)
    if (loaded.isPostponed === isPostponed) writeFileSync(keptOf(file), loaded.script.createCachedData());
  const native = process.moduleLoadList.map((name) => name.replace(/^NativeModule /, ''));
  const loaded = {
    parts: [...modules.keys()],
    builtins: builtinModules.filter((name) => native.includes(name)),
  };
  writeFileSync(process.env.WAYBILL_BUILD_KEEP, JSON.stringify(loaded));
}

function keptOf(file) {
  return `${file}.${process.version}-${process.arch}.cache`;
}

function readIfThere(name) {
  try {
    return readFileSync(name);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
