import t from 'tap';
import { isoMicroseconds } from '../../src/cli/log-time.ts';

t.test('the time of a line is ISO 8601 with microseconds, and that of the clock', async (t) => {
  const before = Date.now();
  const times = Array.from({ length: 1000 }, isoMicroseconds);
  const after = Date.now();
  for (const time of times) t.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  const [first = '', last = ''] = [times[0], times.at(-1)];
  t.ok(Date.parse(first) >= before - 3 && Date.parse(last) <= after + 3);
  t.ok(new Set(times).size > 1, 'lines within a millisecond differ');
  t.same(times, times.toSorted());
});
