import fc from 'fast-check';
import t from 'tap';
import { compareInstants, dateOf, parseInstant } from '../../../src/core/lib/instant.ts';
import { instant } from '../../support/instant.ts';

t.test('an instant is a valid date and time with a zone', async (t) => {
  const good: [string, string][] = [
    ['2026-11-20T01:02:03Z', '2026-11-20T01:02:03.000Z'],
    ['2026-11-20t01:02:03.9999z', '2026-11-20T01:02:03.9999Z'],
    ['2026-11-20T01:02:03.5Z', '2026-11-20T01:02:03.500Z'],
    ['2026-11-20T01:02:03.12345678901234567890Z', '2026-11-20T01:02:03.1234567890123456789Z'],
    [`2026-11-20T01:02:03.${'1'.repeat(64)}${'0'.repeat(9)}Z`, `2026-11-20T01:02:03.${'1'.repeat(64)}Z`],
    ['2024-02-29T23:30:00+01:30', '2024-02-29T22:00:00.000Z'],
    ['2000-02-29T00:00:00-00:00', '2000-02-29T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ];
  for (const [text, iso] of good) t.match(parseInstant(text), { ok: true, value: iso }, text);
  const bad = [
    '2026-11-20',
    '2026-11-20T01:02:03',
    '2026-11-20 01:02:03Z',
    '2026-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    '2026-06-30T23:59:60Z',
    '2026-01-01T00:00:00+24:00',
    '9999-12-31T23:59:59-01:00',
    '0000-01-01T00:00:00+01:00',
    '2026-1-1T00:00:00Z',
    '2026-01-01T00:00:00.Z',
    `2026-01-01T00:00:00.${'1'.repeat(65)}Z`,
    '',
  ];
  for (const text of bad) t.match(parseInstant(text), { ok: false }, text);
});

t.test('the last digit decides which instant is later', async (t) => {
  const ascending = [
    '2025-12-31T23:59:59.9999999999Z',
    '2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00.00000000000000000001Z',
    '2026-01-01T00:00:00.0001Z',
    '2026-01-01T00:00:00.00011Z',
    '2026-01-01T00:00:00.1Z',
    '2026-01-01T00:00:00.1000001Z',
    '2026-01-01T00:00:01+00:00',
  ].map(instant);
  ascending.forEach((a, i) =>
    ascending.forEach((b, j) => t.equal(Math.sign(compareInstants(a, b)), Math.sign(i - j), `${a} ${b}`)),
  );
  t.equal(compareInstants(instant('2026-01-01T01:00:00.10+01:00'), instant('2026-01-01T00:00:00.1Z')), 0);
  t.same(dateOf(instant('2026-01-01T00:00:00.9999Z')), new Date('2026-01-01T00:00:00.999Z'));
});

t.test('instants are ordered by their seconds and fractions, in any zone (property)', async () => {
  const moment = fc.record({
    seconds: fc.integer({ min: 0, max: 3 }),
    fraction: fc.stringMatching(/^[0-9]{1,6}$/),
    zone: fc.constantFrom(0, 60, -60),
  });
  interface Moment {
    seconds: number;
    fraction: string;
    zone: number;
  }
  const textOf = ({ seconds, fraction, zone }: Moment): string =>
    `${new Date((seconds + zone * 60) * 1000 + 86_400_000).toISOString().slice(0, 19)}.${fraction}` +
    `${zone < 0 ? '-' : '+'}${zone === 0 ? '00' : '01'}:00`;
  const micros = ({ seconds, fraction }: Moment): number => seconds * 1e6 + Number(fraction.padEnd(6, '0'));
  fc.assert(
    fc.property(moment, moment, (a, b) => {
      const found = compareInstants(instant(textOf(a)), instant(textOf(b)));
      return Math.sign(found) === Math.sign(micros(a) - micros(b));
    }),
  );
});
