import fc from 'fast-check';
import t from 'tap';
import {
  formatDuration,
  formatSize,
  parseDuration,
  parseSize,
} from '../../../../src/core/lib/settings/sizes-and-durations.ts';

t.test('durations are a whole number and a unit', async (t) => {
  for (const [text, ms] of [
    ['500ms', 500],
    ['30s', 30_000],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['0s', 0],
  ] as const)
    t.equal(parseDuration(text), ms, text);
  for (const text of [
    '',
    '30',
    's',
    '1.5h',
    '-1s',
    '+1s',
    ' 1s',
    '1s ',
    '1 s',
    '1s\n',
    '1S',
    '1h30m',
    '1w',
    '1e3s',
    '٣s',
    '99999999999999999s',
    '9007199254740993ms',
    '9007199254740991d',
  ])
    t.equal(parseDuration(text), undefined, JSON.stringify(text));
});

t.test('sizes are integers of bytes, with units of 1024 or 1000', async (t) => {
  for (const [text, bytes] of [
    ['512MiB', 536_870_912],
    ['2GB', 2_000_000_000],
    ['10KiB', 10_240],
    ['1kB', 1000],
    ['1KB', 1000],
    ['3TiB', 3 * 2 ** 40],
    ['17B', 17],
    ['1024', 1024],
    [1024, 1024],
    [0, 0],
  ] as const)
    t.equal(parseSize(text), bytes, String(text));
  for (const value of [
    '',
    'MiB',
    '1M',
    '1.5MiB',
    '-1',
    '1 MiB',
    '1mib',
    '1Mib',
    '1MiB\n',
    '9007199254740993',
    '9007199254740991KiB',
    -1,
    1.5,
    NaN,
    Infinity,
    2 ** 53,
  ])
    t.equal(parseSize(value), undefined, JSON.stringify(value));
});

t.test('every accepted value is a safe integer', async () => {
  const unit = fc.constantFrom('ms', 's', 'm', 'h', 'd', 'B', 'KiB', 'MiB', 'GB', 'TiB', '');
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 20n }), unit, (count, unit) => {
      for (const value of [parseDuration(`${count}${unit}`), parseSize(`${count}${unit}`)])
        if (value !== undefined && (!Number.isSafeInteger(value) || value < 0)) return false;
      return true;
    }),
  );
});

t.test('formats sizes and durations readably', async (t) => {
  for (const [bytes, text] of [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1 KiB'],
    [1536, '1.5 KiB'],
    [512 * 2 ** 20, '512 MiB'],
    [2 ** 20 - 1, '1 MiB'],
    [2 ** 40 * 3, '3 TiB'],
    [-2048, '-2 KiB'],
  ] as const)
    t.equal(formatSize(bytes), text);
  for (const [ms, text] of [
    [0, '0ms'],
    [340, '340ms'],
    [999.6, '1s'],
    [2500, '2.5s'],
    [30_000, '30s'],
    [59_999, '1m'],
    [90_000, '1m 30s'],
    [5_400_000, '1h 30m'],
    [86_400_000, '1d'],
    [90 * 86_400_000 + 3_600_000, '90d 1h'],
    [-60_000, '-1m'],
  ] as const)
    t.equal(formatDuration(ms), text);
});
