import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { configuration, manifest, root, waybill, web } from './process.ts';

/**
 * The output of the commands for a new user, in one golden file. `UPDATE_GOLDEN=1` rewrites it; review the
 * difference.
 */

/** The time of the bundles. Every other time comes from the test's clock. */
const created = new Set(['2026-11-20T01:02:03.000Z', '2026-11-21T00:00:00.000Z', '2026-11-20T01:02:03Z']);

const golden = new URL('golden/session.txt', import.meta.url);

t.test('a session matches its golden file', async (t) => {
  const place = t.testdir({
    source: {
      old: { 'manifest.json': manifest(['a.txt']), 'a.txt': 'a' },
      new: {
        'manifest.json': manifest(['a.txt', 'sub/b.txt'], '2026-11-21T00:00:00Z', { name: 'session-42' }),
        'a.txt': 'newer',
        'stray.txt': 'not listed',
        sub: { 'b.txt': 'b' },
      },
    },
    'c.yml':
      configuration([
        `${web}, outputs: {checksums: true}, retention: {prune: {enabled: true, keep_latest: 1}}`,
        `${root}, workflow: replacement`,
      ]) +
      '  - {id: up, source: {backend: http_upload}, destinations: [{id: up, backend: local, path: ./up}]}\n',
    'wrong.yml':
      'pipelines:\n  - id: maps\n    sauce: {}\n    destinations:\n      - {id: web, backend: local, workflow: sideways}\n',
  });
  const output: string[] = [];
  const does = (...args: string[]): void => {
    const { status, stdout, stderr } = waybill(args, { cwd: place });
    const text = (stdout + stderr.replace(/^(?=.)/gm, '! '))
      .replaceAll(place, 'PLACE')
      .replace(/ in [\d.]+ s(?=\b)/g, ' in TIME')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => (created.has(time) ? time : 'WHEN'));
    output.push(`$ waybill ${args.join(' ')}\n${text}[${status}]\n`);
  };
  const one = ['-c', 'c.yml', '-p', 'maps', '-d', 'web'];

  does('run', '-c', 'wrong.yml');
  does('config', 'check', '-c', 'c.yml');
  does('validate', '-c', 'c.yml', '-p', 'maps');
  does('inspect', '-c', 'c.yml', '-p', 'maps');
  does('run', '-c', 'c.yml', '--dry-run');
  does('run', '-c', 'c.yml');
  does('run', '-c', 'c.yml');
  does('inspect', '-c', 'c.yml', '-p', 'maps');
  writeFileSync(path.join(place, 'source/new/manifest.json'), manifest(['a.txt'], '2026-11-21T00:00:00Z'));
  does('run', '-c', 'c.yml', '--dry-run');
  does('run', '-c', 'c.yml');
  rmSync(path.join(place, 'web/old/a.txt'));
  does('verify', '-c', 'c.yml', '-p', 'maps');
  does('reconcile-state', ...one, '--dry-run');
  does('reconcile-state', ...one);
  does('run', '-c', 'c.yml', '-d', 'web');
  does('verify', '-c', 'c.yml', '-p', 'maps', '-d', 'web');
  does('prune', ...one);
  does('prune', ...one, '--dry-run');
  does('prune', ...one, '--apply');
  writeFileSync(
    path.join(place, 'source/old/manifest.json'),
    '{"created": "yesterday", "files": ["../x", 5]}',
  );
  does('run', '-c', 'c.yml', '-d', 'web');
  writeFileSync(path.join(place, 'root/.publisher.json'), '{}');
  does('run', '-c', 'c.yml', '-d', 'root');
  does('run', '-c', 'c.yml', '-d', 'roof');
  does('rum');

  const text = output.join('\n');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(golden, text);
  t.equal(text, readFileSync(golden, 'utf8'));
});
