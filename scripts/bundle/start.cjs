#!/usr/bin/env node
/*
 * The installed `waybill`: runs the bundled command line with the machine code that the build kept of it. It
 * is no ES module, since Node.js starts those later. Where V8 does not take the kept code (another Node.js,
 * another processor) it compiles anew, which costs some 40 ms and changes nothing else.
 */
const { readFileSync } = require('node:fs');
const v8 = require('node:v8');
const vm = require('node:vm');

// A short command is over before the optimizing compiler pays, which V8 calls after a sixtieth of this. The
// build has tried the flag with this V8; another one might not know it.
const isShort = !['serve', 'worker', 'weather'].includes(process.argv[2]);
if (isShort && process.versions.v8 === 'V8_OF_BUILD') v8.setFlagsFromString('--interrupt-budget=4000000');

/** Files of `scripts/bundle/commands.mjs`, each loaded when the first of its parts is asked for. */
const parts = new Map();
const modules = new Map();
const scripts = new Map();
const { placeOf } = load('start');

// The build's own way in: the functions that have run by the end are the ones worth keeping.
if (process.env.WAYBILL_BUILD_KEEP !== undefined)
  process.on('exit', () => {
    const { writeFileSync } = require('node:fs');
    for (const [file, script] of scripts) writeFileSync(`${file}.cache`, script.createCachedData());
    writeFileSync(process.env.WAYBILL_BUILD_KEEP, JSON.stringify([...modules.keys()]));
  });

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
  const file = `${__dirname}/${name}.cjs`;
  const script = new vm.Script(readFileSync(file, 'latin1'), {
    filename: file,
    cachedData: readIfThere(`${file}.cache`),
  });
  scripts.set(file, script);
  const loaded = script.runInThisContext();
  for (const [part, run] of Object.entries(loaded.parts)) parts.set(part, run);
  return loaded;
}

function readIfThere(name) {
  try {
    return readFileSync(name);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
