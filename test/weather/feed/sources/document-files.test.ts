import path from 'node:path';
import t from 'tap';
import { filesAt } from '../../../../src/weather/feed/sources/document-files.ts';

t.test('skips hidden files and directories, however the directory is written', async (t) => {
  const place = t.testdir({
    in: { 'a.json': '', '.b.json': '', '.git': { c: '', d: { e: '' } }, f: { 'g.json': '' } },
  });
  const before = process.cwd();
  t.teardown(() => process.chdir(before));
  process.chdir(path.join(place, 'in'));
  for (const written of ['.', './', '../in', '.././in/', path.join(place, 'in'), `${place}/in//`])
    t.same(
      (await filesAt(written)).map((file) => path.relative('.', file)),
      ['a.json', 'f/g.json'],
      written,
    );
});

t.test('names the reason if a path cannot be read', async (t) => {
  const missing = path.join(t.testdir(), 'none');
  await t.rejects(filesAt(missing), {
    code: 'usage',
    message: `${missing} cannot be read: the file does not exist`,
  });
});
