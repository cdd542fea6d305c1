import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import { sizesOf } from '../../../src/core/storage/sizes.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';

/** The result is the same if files are checked separately or listed. */

const wanted = [
  'a.txt',
  'deep/b.txt',
  'empty',
  'missing',
  'deep',
  'link',
  'a.txt/below',
  'x'.repeat(200),
].map((name) => listedKey(name) as string as RelativePath);

t.test('lists only files, with their sizes', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-sizes-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(path.join(root, 'site/deep'), { recursive: true });
  for (const [name, text] of Object.entries({
    'a.txt': 'abc',
    'deep/b.txt': 'de',
    empty: '',
    'not-asked': 'x',
  }))
    writeFileSync(path.join(root, 'site', name), text);
  symlinkSync('a.txt', path.join(root, 'site/link'));
  const expected = { 'a.txt': 3, 'deep/b.txt': 2, empty: 0 };

  const here = subdirectory(await localStorage(root), listedKey('site'));
  t.same(Object.fromEntries(await sizesOf(here, wanted)), expected);

  const elsewhere = delegate(here, { localFiles: undefined });
  const listed = await sizesOf(elsewhere, wanted);
  t.same(Object.fromEntries(wanted.map((name) => [name, listed.get(name)])), {
    ...Object.fromEntries(wanted.map((name) => [name, undefined])),
    ...expected,
  });
});

t.test('reports unreadable paths as storage failures', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-sizes-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const name = 'x'.repeat(300) as RelativePath;
  await t.rejects(sizesOf(await localStorage(root), [name]), { code: 'storage_permanent' });
});
