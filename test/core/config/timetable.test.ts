import fc from 'fast-check';
import t from 'tap';
import { parseCron, parseTimeZone, ticksOf, timetable } from '../../../src/core/config/timetable.ts';

const at = (text: string): number => Date.parse(text);
const text = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** The first ticks after a time. */
function ticksAfter(pattern: string, timezone: string, from: string, count: number): (string | null)[] {
  const ticks = ticksOf(pattern, timezone);
  const found: (number | null)[] = [];
  for (let last: number | null = at(from); last !== null && found.length < count; found.push(last))
    last = ticks.after(last);
  return found.map(text);
}

t.test('a nightly run starts once in either night when clocks change', async (t) => {
  t.same(ticksAfter('30 2 * * *', 'Europe/Berlin', '2026-03-28T00:00:00Z', 3), [
    '2026-03-28T01:30:00.000Z',
    '2026-03-29T01:00:00.000Z', // 02:30 does not exist: 03:00, the first time after the gap
    '2026-03-30T00:30:00.000Z',
  ]);
  t.same(ticksAfter('30 2 * * *', 'Europe/Berlin', '2026-10-24T00:00:00Z', 3), [
    '2026-10-24T00:30:00.000Z',
    '2026-10-25T00:30:00.000Z', // 02:30 occurs twice; the first one counts
    '2026-10-26T01:30:00.000Z',
  ]);
  t.same(ticksAfter('30 1 * * *', 'America/New_York', '2026-10-31T12:00:00Z', 2), [
    '2026-11-01T05:30:00.000Z',
    '2026-11-02T06:30:00.000Z',
  ]);
});

t.test(
  'runs a schedule of several times a day across both clock changes, without gaps or repeats',
  async (t) => {
    for (const from of ['2026-03-28T22:00:00Z', '2026-10-24T22:00:00Z']) {
      const found = ticksAfter('*/15 * * * *', 'Europe/Berlin', from, 40);
      t.same(
        found,
        found.map((_, index) => text(at(from) + (index + 1) * 900_000)),
        from,
      );
    }
    t.same(
      ticksAfter('30 2,14 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 3),
      ['2026-03-28T13:30:00.000Z', '2026-03-29T12:30:00.000Z', '2026-03-30T00:30:00.000Z'],
      'a time that does not exist is skipped',
    );
    t.same(
      ticksAfter('30 1-3 * * *', 'Europe/Berlin', '2026-10-24T22:00:00Z', 4),
      [
        '2026-10-24T23:30:00.000Z',
        '2026-10-25T00:30:00.000Z',
        '2026-10-25T01:30:00.000Z',
        '2026-10-25T02:30:00.000Z',
      ],
      'a time that occurs twice runs twice',
    );
  },
);

t.test('finds the ticks before and after a time', async (t) => {
  const ticks = ticksOf('*/15 * * * *', 'UTC');
  for (const [now, last, next] of [
    ['2026-11-22T15:14:59.999Z', '2026-11-22T15:00:00.000Z', '2026-11-22T15:15:00.000Z'],
    ['2026-11-22T15:15:00.000Z', '2026-11-22T15:15:00.000Z', '2026-11-22T15:30:00.000Z'],
    ['2026-11-22T15:15:00.001Z', '2026-11-22T15:15:00.000Z', '2026-11-22T15:30:00.000Z'],
  ] as const) {
    t.equal(text(ticks.lastAtOrBefore(at(now))), last, now);
    t.equal(text(ticks.after(at(now))), next, now);
  }
});

t.test('rejects patterns and zones with the reason', async (t) => {
  for (const good of [
    '* * * * *',
    '*/15 8-18 * * MON-FRI',
    '0 0 L * *',
    '0 0 29 2 *',
    '@daily',
    '0 12 1 * +MON',
  ])
    t.same(parseCron(good), { ok: true, value: good }, good);
  for (const [bad, reason] of [
    ['', 'five fields'],
    ['* * * *', 'five fields'],
    ['0 * * * * *', 'five fields'],
    ['*  * * * *', 'five fields'],
    ['2030-01-01T00:00:00', 'five fields'],
    ['@reboot', 'five fields'],
    ['61 * * * *', 'invalid value for minute: 61'],
    ['0 25 * * *', 'invalid value for hour: 25'],
    ['a b c d e', 'illegal characters'],
    ['/10 * * * *', 'stepping with missing prefix'],
    ['0 0 30 2 *', 'it matches no date'],
  ] as const)
    t.match(
      parseCron(bad),
      { ok: false, reason: new RegExp(reason.replaceAll(/[/*]/g, String.raw`\$&`)) },
      bad,
    );
  for (const good of ['UTC', 'Europe/Berlin', 'America/New_York']) t.ok(parseTimeZone(good).ok, good);
  for (const bad of ['Mars/Base', '+02:00', '', 'MEZ2']) t.notOk(parseTimeZone(bad).ok, bad);
});

t.test(
  'a run is due at its tick plus the jitter, at the same time on every host, before the next tick',
  async (t) => {
    const settings = { cron: '*/5 * * * *', timezone: 'UTC', jitterMs: 3_600_000 };
    const [one, other] = [timetable('maps', settings), timetable('maps', settings)];
    const delays = new Set<number>();
    let now = at('2026-11-22T15:00:00Z');
    for (let index = 0; index < 50; index++) {
      const due = one.next(now);
      if (due === null) throw new TypeError('there is a next one');
      t.same(other.next(now), due);
      t.ok(due.at >= due.tick && due.at < due.tick + 300_000, 'before the next tick');
      t.same(one.due(due.tick - 300_000, due.at), due, 'due at its time');
      t.equal(one.due(due.tick - 300_000, due.at - 1), null, 'and not before');
      t.equal(one.due(due.tick, due.at), null, 'nor after it was decided');
      t.same(one.next(due.at - 1), due);
      delays.add(due.at - due.tick);
      now = due.at;
    }
    t.ok(delays.size > 40, 'the delays differ');
    t.not(timetable('docs', settings).next(now)?.at, one.next(now)?.at, 'pipelines differ');
    t.same(timetable('maps', { ...settings, jitterMs: 0 }).next(at('2026-11-22T15:00:00Z')), {
      tick: at('2026-11-22T15:05:00Z'),
      at: at('2026-11-22T15:05:00Z'),
    });
  },
);

t.test('finds each tick once and in order, at any times of checking', async () => {
  fc.assert(
    fc.property(
      fc.constantFrom('*/15 * * * *', '30 2 * * *', '0 */2 * * *'),
      fc.constantFrom(0, 60_000, 3_600_000),
      fc.array(fc.integer({ min: 1, max: 900_000 }), { minLength: 1, maxLength: 30 }),
      (cron, jitterMs, steps) => {
        const table = timetable('maps', { cron, timezone: 'Europe/Berlin', jitterMs });
        let now = at('2026-10-24T22:00:00Z');
        let decided = table.lastAtOrBefore(now) ?? 0;
        for (const step of steps) {
          const expected = table.next(now);
          now += step;
          const due = table.due(decided, now);
          if ((due !== null) !== (expected !== null && expected.at <= now && expected.tick > decided))
            throw new Error(`at ${text(now)} ${JSON.stringify({ due, expected, decided })}`);
          if (due !== null && (due.tick <= decided || due.at > now)) throw new Error('out of order');
          decided = due?.tick ?? decided;
        }
      },
    ),
    { numRuns: 60 },
  );
});
