#!/usr/bin/env node
/*
 * The installed `waybill`: runs the bundled command line with the machine code that the build kept of it. It
 * is no ES module, since Node.js starts those later. Another Node.js or processor than the build's compiles
 * anew, which costs some 40 ms and changes nothing else. V8 itself would refuse only what another release of
 * V8 has compiled, and Node.js changes it within one: code of 20.20 does other things on 20.19.
 */
const { readFileSync } = require('node:fs');
const vm = require('node:vm');

/** Files of `scripts/bundle/commands.mjs`, each loaded when the first of its parts is asked for. */
const parts = new Map();
const modules = new Map();
/** Each with whether the optimizing compiler was postponed before it was loaded. */
const scripts = new Map();
let isPostponed = false;
const { placeOf, builtins, v8OfBuild } = load('start');

// The build's own way in: the functions that have run by the end are the ones worth keeping.
if (process.env.WAYBILL_BUILD_KEEP !== undefined) process.on('exit', keepMachineCode);

requirePart('./main.js');

/** What `require` is to a part: others by `./` and their names, and what Node.js finds. */
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

/** What `import()` is to a part. Kept machine code forgets who loads modules for it. */
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
 * A short command is over before the optimizing compiler pays, which V8 then calls after a sixtieth of this.
 * The build has tried the flag with its V8; another one might not know it. Machine code is taken only with
 * the flags that it was kept with: what Node.js has of its own modules has to be loaded before.
 */
function postponeOptimizing() {
  if (isPostponed || process.versions.v8 !== v8OfBuild) return;
  isPostponed = true;
  for (const name of builtins) require(name);
  require('node:v8').setFlagsFromString('--interrupt-budget=4000000');
}

/** Modules that were loaded before the flag was set are kept by a command that does not set it. */
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
