import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** @param {string} more */
const configOf = (more) => `pipelines:
  - id: p
    source: {backend: local, path: ./source}
    destinations: [{id: d, backend: local, mapping: fixed, workflow: replacement, ${more}}]
`;
const configs = {
  'in-place.yml': configOf('path: ./public'),
  'releases.yml': configOf('path: ./releases, layout: releases'),
  'wrong.yml': configOf('path: ./public, layuot: releases'),
};
const first = { 'a/readme.txt': 'hello', 'a/page.html': '<p>', 'b/picture.png': 'x' };
const second = { ...first, 'a/readme.txt': 'hello again' };

/**
 * Runs a new build of the program for everything that has to start fast: help, publishing, publishing again
 * with one changed file or none, the same with releases, a rollback, and reporting a mistake in the
 * configuration. The code that V8 compiles for this is stored next to the source.
 *
 * @param {string} program
 * @returns {Record<'publish' | 'releases' | 'judge', { parts: string[], builtins: string[] }>} the parts and
 *   the Node.js modules that were loaded
 */
export function keepMachineCode(program) {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-build-'));
  const list = path.join(directory, 'parts.json');
  const inside = (name) => path.join(directory, name);
  const run = (expected, ...args) => {
    const env = { ...process.env, WAYBILL_BUILD_KEEP: list };
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], { env, encoding: 'utf8' });
    // If V8 does not know a flag, it only prints a warning to stderr.
    if (status !== expected || stderr.includes('unrecognized flag'))
      throw new Error(`the new program failed at ${args.join(' ')}:\n${stderr}`);
    return JSON.parse(readFileSync(list, 'utf8'));
  };
  const publishEach = (name) => {
    let loaded;
    for (const files of [first, second, second]) {
      writeBundle(inside('source'), files);
      loaded = run(0, 'run', '--config', inside(name));
    }
    return loaded;
  };
  try {
    for (const [name, text] of Object.entries(configs)) writeFileSync(inside(name), text);
    run(0, '--help');
    run(0, 'completion', 'bash');
    const publish = publishEach('in-place.yml');
    publishEach('releases.yml');
    const releases = [];
    for (const verb of ['list', 'rollback', 'resume'])
      releases.push(run(0, 'releases', verb, '--config', inside('releases.yml'), '--pipeline', 'p'));
    const parts = [...new Set(releases.flatMap((loaded) => loaded.parts))];
    const judge = run(2, 'run', '--config', inside('wrong.yml'));
    return { publish, releases: { parts, builtins: releases[0].builtins }, judge };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function writeBundle(directory, files) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), text);
  }
  const listed = Object.entries(files).map(([name, text]) => ({
    path: name,
    size: text.length,
    digest: `sha256:${createHash('sha256').update(text).digest('hex')}`,
  }));
  const manifest = { schema_version: 1, created: '2026-01-01T00:00:00Z', files: listed };
  writeFileSync(path.join(directory, 'manifest.json'), JSON.stringify(manifest));
}
