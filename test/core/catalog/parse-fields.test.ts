import t from 'tap';
import {
  asInstant,
  asInteger,
  asString,
  asStringOrNull,
  asUrlOrNull,
  isStoredKey,
} from '../../../src/core/catalog/parse-fields.ts';

t.test('a field must have its exact type and is returned unchanged', async (t) => {
  const cases: [parse: (value: unknown, at: string) => unknown, good: unknown[], bad: unknown[]][] = [
    [asString, ['a', ' '], ['', null, 1, undefined, ['a']]],
    [asStringOrNull, ['a', null], ['', undefined, 0]],
    [asInteger, [0, 1, Number.MAX_SAFE_INTEGER], [-1, 1.5, 2 ** 53, NaN, Infinity, '1', 1n, null]],
    [asUrlOrNull, [null, 'https://x.example/'], ['', 'nowhere', undefined]],
    [
      asInstant,
      ['00Z', '00.5Z', '00.123456789Z', '00+01:00', '00-11:30'].map((end) => `2026-11-20T00:00:${end}`),
      ['2026-11-20', '2026-11-20T00:00Z', '2026-11-20T00:00:00', '+002026-11-20T00:00:00Z', '20 Nov 2026']
        .concat(['2026-11-31T25:00:00Z', '2026-11-20T00:00:00+1:00', '2026-11-20T00:00:00Z '])
        .concat(['', 'Fri, 20 Nov 2026 00:00:00 GMT']),
    ],
  ];
  for (const [parse, good, bad] of cases) {
    for (const value of good) t.equal(parse(value, 'here'), value, `${parse.name} of ${String(value)}`);
    for (const value of bad)
      t.throws(() => parse(value, 'here'), { message: /^here / }, `${parse.name} of ${String(value)}`);
  }
});

t.test('a state contains only keys that a file system allows, and no reserved ones', async (t) => {
  for (const key of ['a', 'a/b', '.a', 'a/..b', 'a b', '...', '\\', 'é']) t.ok(isStoredKey(key), key);
  for (const key of ['', '/a', 'a/', 'a//b', '.', './a', 'a/./b', '..', '../a', 'a/..', 'a\0b'])
    t.notOk(isStoredKey(key), JSON.stringify(key));
  for (const key of ['.publisher.json', '.publisher.tmp/x', 'a/.publisher.lock'])
    t.notOk(isStoredKey(key), key);
});
