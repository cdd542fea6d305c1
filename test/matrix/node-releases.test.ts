import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import { program } from '../cli/process.ts';
import { noise } from '../fixtures/noise.ts';
import { nodeProgram, nodeReleases } from '../services/node-releases.ts';

/**
 * The output for the same files is identical on every Node.js version, so that two hosts do not publish
 * alternately.
 */

const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', SOURCE_DATE_EPOCH: '1795136523' };

t.test('every Node.js release makes an archive of the same bytes', async (t) => {
  const place = t.testdir({ source: {} });
  const bundle = path.join(place, 'source/one');
  const words = readFileSync('package-lock.json');
  for (const [name, body] of [
    ['empty', ''],
    ['deep/er/page.html', words.subarray(0, 300_000)],
    ['grüße 🗺.txt', words.subarray(100, 70_000)],
    ['zeros.bin', Buffer.alloc(500_000)],
    ['noise.bin', noise(300_000)],
  ] as const) {
    mkdirSync(path.dirname(path.join(bundle, name)), { recursive: true });
    writeFileSync(path.join(bundle, name), body);
  }
  const make = (node: string, release: string): Record<string, string> => {
    const run = (...args: string[]): string => {
      const { status, stdout, stderr } = spawnSync(node, args, { cwd: place, env, encoding: 'utf8' });
      if (status !== 0)
        throw new Error(`Node.js ${release} ${args.join(' ')} ended with ${status}\n${stderr}`);
      return stdout;
    };
    t.equal(run('--version').trim(), `v${release}`);
    run(program, 'pack', 'source/one', '--renew', '--name', 'n', '-o', `${release}.tgz`);
    run(program, 'pack', 'source/one', '--renew', '--name', 'n', '--manifest-only');
    writeFileSync(path.join(place, 'c.yml'), configuration(release));
    run(program, 'run', '-c', 'c.yml');
    const packed = digestOf(readFileSync(path.join(place, `${release}.tgz`)));
    return { packed, ...digestsBelow(path.join(place, 'out', release)) };
  };
  const expected = make(process.execPath, process.versions.node);
  t.same(
    Object.keys(expected).filter((name) => name.endsWith('.tar.gz')),
    ['one/one.tar.gz'],
    'an archive was published',
  );
  for (const release of nodeReleases) t.same(make(await nodeProgram(release), release), expected, release);
});

function configuration(release: string): string {
  const place = `path: './out/${release}', outputs: {archive: true, checksums: true, index: true}`;
  return [
    'pipelines:',
    '  - id: maps',
    '    source: {backend: local, path: ./source}',
    `    destinations: [{id: web, backend: local, ${place}}]`,
  ].join('\n');
}

/** The digest of all published files, without the record of the publication, which has its time. */
function digestsBelow(root: string): Record<string, string> {
  const files = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== '.publisher.json')
    .map((entry) => path.join(entry.parentPath, entry.name));
  return Object.fromEntries(files.map((file) => [path.relative(root, file), digestOf(readFileSync(file))]));
}
