import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { configuration, document, manifest, waybill, web } from '../../process.ts';

t.test('directories and links in place of files do not hide other differences', async (t) => {
  const cwd = t.testdir({
    private: 'private',
    source: { one: { 'manifest.json': manifest(['a', 'b', 'c', 'd']), a: 'a', b: 'b', c: 'c', d: 'd' } },
    'c.yml': configuration([web]),
  });
  const run = (...args: string[]): ReturnType<typeof waybill> => waybill([...args, '-c', 'c.yml'], { cwd });
  t.equal(run('run').status, 0);
  const at = (name: string): string => path.join(cwd, 'web/one', name);
  for (const name of ['a', 'b', 'c']) rmSync(at(name));
  symlinkSync('../../private', at('a'));
  mkdirSync(at('b'));
  writeFileSync(at('d'), 'D');
  const verified = run('verify', '--format', 'json');
  t.equal(verified.status, 1);
  t.match(document(t, verified), {
    destinations: [
      {
        paths: [
          {
            error: null,
            differing: [
              { path: 'a', problem: 'not_a_file', found: null },
              { path: 'b', problem: 'not_a_file' },
              { path: 'c', problem: 'missing' },
              { path: 'd', problem: 'digest' },
            ],
          },
        ],
      },
    ],
  });
  t.match(run('verify').stdout, /~ a {2}not a file: expected sha256:/);
  const repaired = run('verify', '--repair');
  t.match(repaired, { status: 0, stdout: /written again {2}a[^]*written again {2}d/ }, repaired.stdout);
  t.match(run('verify'), { status: 0, stdout: /clean/ });
  t.equal(readFileSync(path.join(cwd, 'private'), 'utf8'), 'private', 'the target of the link is unchanged');
});
