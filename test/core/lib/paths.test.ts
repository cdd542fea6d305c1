import t from 'tap';
import {
  ancestorsOf,
  areApart,
  compareCodeUnits,
  findCollisions,
  isPlainPath,
  isReservedPath,
  isReservedSegment,
  parseRelativePath,
  type RelativePath,
} from '../../../src/core/lib/paths.ts';
import { foldedPath, printableAscii } from '../../../src/core/lib/text.ts';

t.test(
  'lists the ancestors of a path from the outermost, without the root and the path itself',
  async (t) => {
    t.same([...ancestorsOf('a/b/c.txt')], ['a', 'a/b']);
    t.same([...ancestorsOf('a/b')], ['a']);
    t.same([...ancestorsOf('a')], []);
    t.same([...ancestorsOf('')], []);
  },
);

t.test('a walk through ancestors may stop early', async (t) => {
  for (const ancestor of ancestorsOf('a/b/c/d')) {
    t.equal(ancestor, 'a');
    break;
  }
});

t.test('reports one reason for each path that collides with another', async (t) => {
  const paths = ['a', 'A', 'a', 'b/c', 'b', 'b/c/d/e', 'B/c', 'd/e/f', 'ab'] as RelativePath[];
  t.same(findCollisions(paths), [
    { index: 1, reason: 'differs from "a" only in letter case' },
    { index: 2, reason: 'is listed twice' },
    { index: 6, reason: 'differs from "b/c" only in letter case' },
    { index: 3, reason: 'lies below "b", which is listed as a file' },
    { index: 5, reason: 'lies below "b", which is listed as a file' },
    { index: 6, reason: 'lies below "b", which is listed as a file' },
  ]);
});

/** The maximum length of a segment in bytes, and one more. */
const [most, over] = ['a'.repeat(255), 'a'.repeat(256)];
/** 1,024 bytes in five segments, with one or two bytes per character. */
const [maxAscii, maxAccented] = ['a'.repeat(204), 'é'.repeat(102)].map((segment) =>
  Array<string>(5).fill(segment).join('/'),
) as [string, string];

t.test('accepts a path that is safe on every system, and rejects others with the reason', async (t) => {
  for (const path of [
    'a',
    'a/b.txt',
    '.well-known/x',
    'a b/~!#$%&()=;:,[]{}^`+@',
    'späce/名前',
    'a"b',
    'publisher/.publish',
    'a/.x/..y/...',
    most,
    'é'.repeat(127),
    `${most}/b`,
  ])
    t.same(parseRelativePath(path), { ok: true, path }, JSON.stringify(path));
  for (const [path, reason] of [
    ['', /^is empty$/],
    ['\ud800', /not well-formed/],
    ['/a', /^is absolute/],
    ['a\\b', /backslash/],
    ['a\nb', /control character/],
    ['a\u007f', /control character/],
    ['a\u0085b', /control character/],
    ['a\u2028b', /control character/],
    ['e\u0301', /normalization form C/],
    ['a//b', /^has an empty segment$/],
    ['a/', /^has an empty segment$/],
    ['.', /^has the segment "\."$/],
    ['a/../b', /^has the segment "\.\.", which leads out of the directory$/],
    [over, /a segment longer than 255 bytes/],
    [`a/${over}`, /a segment longer than 255 bytes/],
    ['é'.repeat(128), /a segment longer than 255 bytes/],
    ['.publisher', /begins with "\.publisher", which is reserved/],
    ['a/.PUBLISHER.json', /reserved/],
  ] as const) {
    const verdict = parseRelativePath(path);
    const name = JSON.stringify(path).replace('\u2028', '\\u2028');
    t.notOk(verdict.ok, name);
    if (!verdict.ok) t.match(verdict.reason, reason, name);
  }
});

t.test('a path has at most 1,024 bytes, however many characters it has', async (t) => {
  for (const longest of [maxAscii, maxAccented]) {
    t.equal(Buffer.byteLength(longest), 1024);
    t.ok(parseRelativePath(longest).ok, longest.slice(0, 10));
    t.match(parseRelativePath(`${longest}x`), { ok: false, reason: 'is longer than 1024 bytes' });
  }
});

t.test('a plain path needs no further checks and no escapes in JSON', async (t) => {
  for (const path of ['a', 'a/b', ' ', 'a.b/c..d', '!/#', '[/]', '~', most])
    t.ok(isPlainPath(path), JSON.stringify(path));
  for (const path of ['', '.a', 'a/.b', 'a//b', '/a', 'a/', 'a"b', '"', 'a\\', 'é', 'a\n', '\u007f', over])
    t.notOk(isPlainPath(path), JSON.stringify(path));
  t.notOk(isPlainPath(`a/${'b/'.repeat(127)}c`), 'longer than a segment may be');
});

t.test('paths are apart if they differ and none is below another', async (t) => {
  for (const paths of [
    [],
    ['a'],
    ['a/b', 'a/c', 'b', 'b.x/y', 'b.x/z', 'ab/c'],
    ['x/y/z', 'x/y/w', 'x/v', 'x.y'],
    ['a', 'ab'],
    ['ab/x', 'cd/ab'],
  ])
    t.ok(areApart(paths), paths.join(', '));
  for (const paths of [
    ['a', 'a'],
    ['a', 'A'],
    ['ß', 'ẞ'],
    ['a/b', 'a'],
    ['a', 'a/b/c/d'],
    ['a/b/c', 'a/b/d', 'a/b'],
    ['x', 'b/c', 'b/d', 'X/y'],
    ['ab/c', 'ab/d', 'abc', 'ab'],
    ['aa/c', 'ab/d', 'ab'],
    ['cd', 'ab/x', 'cd/ab'],
  ])
    t.notOk(areApart(paths), paths.join(', '));
});

t.test('sorts paths by their code units', async (t) => {
  t.equal(compareCodeUnits('a', 'b'), -1);
  t.equal(compareCodeUnits('b', 'a'), 1);
  t.equal(compareCodeUnits('a', 'a'), 0);
  t.same(['b', 'a/b', 'B', 'é', 'a'].sort(compareCodeUnits), ['B', 'a', 'a/b', 'b', 'é']);
});

t.test('folds names as case-insensitive file systems do', async (t) => {
  t.equal(foldedPath('A/b.TXT'), 'a/b.txt');
  for (const [a, b] of [
    ['É', 'é'],
    ['E\u0301', 'é'],
    ['ẞ', 'ß'],
    ['ß', 'SS'],
    ['ſ', 's'],
    ['\u212a', 'k'],
    ['Σς', 'σσ'],
  ] as const)
    t.equal(foldedPath(a), foldedPath(b), `${a} and ${b}`);
  t.not(foldedPath('e'), foldedPath('é'));
  t.match('~ !', printableAscii);
  for (const text of ['é', 'a\n', '\u007f', 'a\u001fb', 'é b'])
    t.notMatch(text, printableAscii, JSON.stringify(text));
});

t.test("segments that begin with the publisher's prefix are reserved, in any case", async (t) => {
  for (const name of ['.publisher', '.publisher.json', '.Publisher-x', '.publiſher'])
    t.ok(isReservedSegment(name), name);
  for (const name of ['publisher', 'x.publisher', '.publish', '.']) t.notOk(isReservedSegment(name), name);
  for (const path of ['.publisher.tmp/a', 'a/.publisher.json', 'a/.PUBLISHER/b'])
    t.ok(isReservedPath(path), path);
  for (const path of ['a', 'a.publisher/b', 'a/b.publisher']) t.notOk(isReservedPath(path), path);
});
