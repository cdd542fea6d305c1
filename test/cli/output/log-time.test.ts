import t from 'tap';
import { isoMicroseconds, microsecondClock } from '../../../src/cli/output/logger.ts';

t.test('writes log times in ISO 8601 with microseconds, from the clock', async (t) => {
  const before = Date.now();
  const times = Array.from({ length: 1000 }, isoMicroseconds);
  const after = Date.now();
  for (const time of times) t.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  const [first = '', last = ''] = [times[0], times.at(-1)];
  t.ok(Date.parse(first) >= before - 3 && Date.parse(last) <= after + 3);
  t.ok(new Set(times).size > 1, 'lines within a millisecond differ');
  t.same(times, times.toSorted());
});

/** Clocks whose reads take time: the given milliseconds pass before each read. */
function clocksWith(pauses: readonly number[]) {
  let now = Date.parse('2026-11-20T02:04:34.000Z');
  const left = [...pauses];
  let jump = 0;
  const pass = (): number => (now += left.shift() ?? 0.001);
  return {
    system: () => Math.floor(pass() + jump),
    fine: () => pass() - 1e12,
    jumpBy: (ms: number) => void (jump += ms),
  };
}

t.test('log time does not go backwards if the process is suspended between two clock reads', async (t) => {
  for (let held = 0; held < 9; held += 1) {
    const clocks = clocksWith(Array.from({ length: 9 }, (_, index) => (index === held ? 50 : 0.001)));
    const time = microsecondClock(clocks, 1e12);
    const times = Array.from({ length: 6 }, time);
    t.same(times, times.toSorted(), `suspended before read ${held}`);
    t.match(times.at(-1), /^2026-11-20T02:04:34\.050/);
  }
});

t.test('follows changes of the system clock, forwards and backwards', async (t) => {
  const clocks = clocksWith([]);
  const time = microsecondClock(clocks);
  t.match(time(), /^2026-11-20T02:04:3[34]\./);
  clocks.jumpBy(3_600_000);
  t.match(time(), /^2026-11-20T03:04:3[34]\./);
  clocks.jumpBy(-7_200_000);
  t.match(time(), /^2026-11-20T01:04:3[34]\./);
});
