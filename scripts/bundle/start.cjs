#!/usr/bin/env node
/*
 * The installed `waybill`: runs the bundled command line with the machine code that the build stored. It is a
 * CommonJS module because Node.js starts ES modules later. On another Node.js version or processor, V8
 * compiles the source again, which costs about 40 ms. V8 rejects only code from another V8 release, but
 * Node.js patches V8 within a release: code from 20.20 behaves differently on 20.19.
 */
const { readFileSync } = require('node:fs');
const vm = require('node:vm');

/** Files of `scripts/bundle/commands.mjs`, each loaded when its first part is requested. */
const parts = new Map();
const modules = new Map();
/** The loaded files, each with whether the optimizing compiler was postponed at that time. */
const scripts = new Map();
let isPostponed = false;
const { placeOf, builtins, v8OfBuild } = load('start');

// The build's entry point: stores the code of functions that have run.
if (process.env.WAYBILL_BUILD_KEEP !== undefined) process.on('exit', keepMachineCode);

requirePart('./main.js');

/** `require` for a part: resolves other parts by `./NAME`, and everything else with Node.js. */
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

/** `import()` for a part. Stored machine code loses its module loader. */
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
 * A short command exits before the optimizing compiler pays off. V8 starts it after a sixtieth of this
 * budget. The build has tested the flag with its V8, and another V8 may not know it. V8 accepts machine code
 * only with the flags that it was compiled with, so the Node.js built-ins must be loaded first.
 */
function postponeOptimizing() {
  if (isPostponed || process.versions.v8 !== v8OfBuild) return;
  isPostponed = true;
  for (const name of builtins) require(name);
  require('node:v8').setFlagsFromString('--interrupt-budget=4000000');
}

/** Modules that were loaded before the flag was set are stored by a command that does not set it. */
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
