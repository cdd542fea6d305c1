#!/usr/bin/env node
/*
 * The installed `waybill`: runs the bundled command line with the machine code that the build kept of it.
 * Where V8 does not take that (another Node, another processor) it compiles anew, which costs some 40 ms and
 * changes nothing else.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';

const file = fileURLToPath(new URL('../bundle/cli.cjs', import.meta.url));
const script = new vm.Script(
  `(function (exports, require, module, __filename, __dirname, importModule) { ${readFileSync(file, 'utf8')}\n})`,
  { filename: file, cachedData: readIfThere(`${file}.cache`) },
);

// The build's own way in: the functions that have run by the end are the ones worth keeping.
const keepIn = process.env.WAYBILL_BUILD_CODE_CACHE;
if (keepIn !== undefined) {
  const { writeFileSync } = await import('node:fs');
  process.on('exit', () => writeFileSync(keepIn, script.createCachedData()));
}

const module = { exports: {} };
// Relative names are the same from here, since both files lie one level below dist.
const importModule = (name) => import(name);
const run = script.runInThisContext();
run(module.exports, createRequire(file), module, file, path.dirname(file), importModule);

function readIfThere(name) {
  try {
    return readFileSync(name);
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
