import t from 'tap';
import { timeLeft } from '../../../src/cli/output/progress.ts';

t.test('estimates the remaining time from the rate since the bar was shown', (t) => {
  const begun = { done: 1000, atMs: 5000 };
  const left = (done: number, nowMs: number): string => timeLeft({ done, total: 11_000, nowMs }, begun);
  t.equal(left(1000, 60_000), '', 'no bytes yet');
  t.equal(left(2000, 5100), '', 'too early to estimate');
  t.equal(left(2000, 7000), '18s left');
  t.equal(left(10_500, 24_000), '1s left', 'a started second counts');
  t.equal(left(11_000, 25_000), '', 'no estimate at the end');
  t.end();
});
