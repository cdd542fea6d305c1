import t from 'tap';
import { trendFacts } from '../../../../src/api/console/views/trend-facts.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

/** Finished runs, newest first, which took these seconds, and waited a tenth of them. */
function runsOf(seconds: readonly number[], failed: readonly number[] = []): RunRecord[] {
  return seconds.map((took, index) => {
    const at = (after: number): string => new Date(1e12 - index * 3_600_000 + after * 1000).toISOString();
    return {
      ...{ run_id: `run-${index}`, accepted_at: at(0), started_at: at(took / 10) },
      ...{ finished_at: at(took / 10 + took), status: failed.includes(index) ? 'failed' : 'succeeded' },
    } as never;
  });
}

const texts = (runs: readonly RunRecord[]): string[] =>
  trendFacts(runs).map(({ name, value }) => `${name} ${value}`);

t.test('sums up failures, durations and waits', (t) => {
  t.same(texts([]), []);
  t.same(texts(runsOf([10, 30, 20], [1])), [
    'Failed runs 1 of 3',
    'Median duration 20 s',
    'Longest run 30 s',
    'Longest wait 3 s',
  ]);
  t.match(texts(runsOf(Array.from({ length: 20 }, (_, index) => index + 1)))[2], '95th percentile 19 s');
  t.end();
});

t.test('links the newest failure and the longest run', (t) => {
  const [failed, , longest] = trendFacts(runsOf([10, 30, 20], [1, 2]));
  t.match(failed, { isFailure: true, href: 'console/runs/run-1', about: /^newest 9 Sept/ });
  t.match(longest, { href: 'console/runs/run-1' });
  t.match(trendFacts(runsOf([10]))[0], { isFailure: false, href: null, about: 'no run failed' });
  t.end();
});
