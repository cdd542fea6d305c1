import t from 'tap';
import {
  type BundleListing,
  fileProblem,
  linkInPath,
  listBundle,
  unlistedWarning,
  unreadableFindings,
} from '../../../src/core/bundle/listed-files.ts';
import type { ManifestFile } from '../../../src/core/bundle/manifest.ts';
import { finding } from '../../../src/core/lib/errors.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Entry, Storage } from '../../../src/core/storage/storage.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const entry = (key: string, type: Entry['type'] = 'file', size = 1): Entry => ({
  key: listedKey(key),
  type,
  size,
});

t.test('a warning counts unlisted files and names five, in order', async (t) => {
  t.same(unlistedWarning('bundle', []), []);
  for (const [names, message] of [
    [['b'], '1 file is not in the manifest and will not be published: "b"'],
    [['b', 'a'], '2 files are not in the manifest and will not be published: "a", "b"'],
    [
      ['e', 'd', 'c', 'b', 'a'],
      '5 files are not in the manifest and will not be published: "a", "b", "c", "d", "e"',
    ],
    [
      ['g', 'f', 'e', 'd', 'c', 'b', 'a'],
      '7 files are not in the manifest and will not be published: "a", "b", "c", "d", "e" and 2 more',
    ],
  ] as const)
    t.same(unlistedWarning('bundle', [...names]), [
      finding('warning', 'unlisted_files', message, { file: 'bundle' }),
    ]);
});

t.test('divides the entries of a listing into listed and unlisted ones', async (t) => {
  for (const directory of ['', 'x/bundle'] as const) {
    const below = (name: string): string => (directory === '' ? name : `${directory}/${name}`);
    const entries = [
      entry(below('a')),
      entry(below('d/b'), 'link'),
      entry(below('d'), 'link'),
      entry(below('manifest.json')),
      entry(below('.publisher.json')),
      entry(below('d/other')),
    ];
    const storage: Storage = {
      ...memoryStorage({ flavour: 'files' }),
      async *list(listed, { recursive, onUnreadable }) {
        t.same([listed, recursive], [directory, true]);
        onUnreadable?.({
          reason: 'not_utf8',
          directory: listedKey(below('d')),
          escaped: 'caf\\xe9',
          decoded: 'caf\ufffd',
          type: 'file',
        });
        yield* entries;
      },
    };
    const files = ['a', 'd/b', 'missing'].map((path) => ({ path }) as ManifestFile);
    t.same(await listBundle(storage, listedKey(directory), files), {
      present: new Map([
        ['a', entries[0]],
        ['d/b', entries[1]],
      ]),
      links: new Set(['d/b', 'd']),
      signature: null,
      unlisted: ['d', 'd/other'],
      unreadable: { not_utf8: ['d/caf\\xe9'], no_path: [] },
    });
  }
});

t.test('a name that is not UTF-8 is an error only if a listed file is missing', async (t) => {
  const listing = (...unreadable: string[]): BundleListing => ({
    present: new Map(),
    links: new Set(),
    signature: null,
    unlisted: [],
    unreadable: { not_utf8: unreadable, no_path: [] },
  });
  const missing = finding('error', 'file_missing', 'is not there', { file: 'a' });
  const other = finding('error', 'size_mismatch', 'is another', { file: 'b' });
  t.same(unreadableFindings(listing(), [missing]), []);
  for (const [findings, severity] of [
    [[], 'warning'],
    [[other], 'warning'],
    [[other, missing], 'error'],
  ] as const)
    t.match(unreadableFindings(listing('x'), findings), [{ severity, code: 'unsafe_path', file: 'x' }]);
  const [one] = unreadableFindings(listing('x'), []);
  t.match(one?.message, /has a name that is not UTF-8, so that/);
  const [more] = unreadableFindings(listing('y', 'z', 'x'), []);
  t.match(more, { file: 'x', message: /has a name that is not UTF-8, like 2 more, so that/ });
});

t.test('only a regular file of the listed size can be published', async (t) => {
  const none = (): undefined => undefined;
  for (const [found, size, link, code] of [
    [undefined, 1, undefined, 'file_missing'],
    [undefined, 1, 'd', 'file_is_link'],
    [entry('a', 'link', 0), 0, undefined, 'file_is_link'],
    [entry('a', 'directory', 1), 1, undefined, 'file_not_regular'],
    [entry('a', 'other', 1), 1, undefined, 'file_not_regular'],
    [entry('a', 'file', 2), 1, undefined, 'size_mismatch'],
    [entry('a', 'file', 1), 1, undefined, undefined],
    [entry('a', 'file', 5), null, undefined, undefined],
  ] as const)
    t.equal(fileProblem(found, size, () => link)?.code, code, `${found?.type} ${code}`);
  t.match(
    fileProblem(undefined, 1, () => 'd'),
    { message: /the symbolic link "d"/ },
  );
  t.match(fileProblem(entry('a', 'file', 2), 1, none), { message: 'should have 1 bytes, but has 2' });
});

t.test('names the outermost link of a path', async (t) => {
  const links = new Set(['a/b', 'a/b/c/d', 'x']);
  for (const [path, link] of [
    ['a/b/c/d/e', 'a/b'],
    ['x/y', 'x'],
    ['a/c', undefined],
    ['x', undefined],
    ['xy/z', undefined],
  ] as const)
    t.equal(linkInPath(path, links), link, path);
  t.equal(linkInPath('a/b', new Set()), undefined);
});
