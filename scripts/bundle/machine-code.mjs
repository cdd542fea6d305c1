import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const config = `pipelines:
  - {id: p, source: {backend: local, path: ./source}, destinations: [{id: d, backend: local, path: ./public}]}
`;
const first = { 'a/readme.txt': 'hello', 'a/page.html': '<p>', 'b/picture.png': 'x' };
const second = { ...first, 'a/readme.txt': 'hello again' };

/**
 * Lets the new program print its help, publish, publish once more with one file changed, and once more with
 * nothing to do. It keeps what V8 has compiled for all of them beside what it was compiled from.
 *
 * @param {string} program
 * @returns {{ parts: string[], builtins: string[] }} what the last one has loaded, and of Node.js's own
 */
export function keepMachineCode(program) {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-build-'));
  const list = path.join(directory, 'parts.json');
  const run = (...args) => {
    const env = { ...process.env, WAYBILL_BUILD_KEEP: list };
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], { env, encoding: 'utf8' });
    // V8 tells on stderr of a flag that it does not know, and goes on.
    if (status !== 0 || stderr.includes('unrecognized flag'))
      throw new Error(`the new program failed at ${args.join(' ')}:\n${stderr}`);
  };
  try {
    writeFileSync(path.join(directory, 'config.yml'), config);
    run('--help');
    for (const files of [first, second, second]) {
      writeBundle(path.join(directory, 'source'), files);
      run('run', '--config', path.join(directory, 'config.yml'));
    }
    return JSON.parse(readFileSync(list, 'utf8'));
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
