import t from 'tap';
import { trendsOf } from '../../../../src/api/console/views/trends.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

/** Runs of a minute each, of which these failed; the newest first. */
function runsOf(...failed: boolean[]): RunRecord[] {
  return failed.map((isFailed, index) => {
    const at = (seconds: number): string => new Date(1e12 - index * 3_600_000 + seconds * 1000).toISOString();
    return {
      ...{ accepted_at: at(0), started_at: at(0), finished_at: at(60), destinations: [] },
      status: isFailed ? 'failed' : 'succeeded',
    } as never;
  });
}

const plot = (runs: RunRecord[], wanted: string): ReturnType<typeof trendsOf>[number] | undefined =>
  trendsOf(runs).find(({ id }) => id === wanted);

t.test('what is told of a plot is what was, also where there was nothing', (t) => {
  t.equal(plot(runsOf(false, false), 'failures')?.about, '0 of 2 runs');
  t.equal(plot(runsOf(true, false, true), 'failures')?.about, '2 of 3 runs');
  t.equal(plot(runsOf(false), 'failures')?.about, '0 of 1 run');
  t.equal(plot(runsOf(false), 'durations')?.about, 'at most 1 min 0 s, last 1 min 0 s');
  t.equal(plot(runsOf(false), 'bytes')?.about, 'at most 0 B, last 0 B');
  t.equal(plot([], 'durations')?.about, 'no run has ended yet');
  t.end();
});

t.test('no half of a run stands at the side of a plot', (t) => {
  const labels = (...failed: boolean[]): unknown =>
    plot(runsOf(...failed), 'failures')?.levels.map(({ label }) => label);
  t.same(labels(true, false), ['0', '1']);
  // Of more runs than the plot has points, two have the room of one.
  t.same(labels(...Array.from({ length: 240 }, () => true)), ['0', '1', '2']);
  t.end();
});

t.test('failures are bars, with nothing between them', (t) => {
  const shown = plot(runsOf(true, false, true), 'failures');
  t.same([shown?.line, shown?.area], ['', '']);
  t.equal(shown?.bars.length, 2, 'a run that succeeded has none');
  t.match(shown?.bars[1], { title: '1, 9 Sept 2001, 01:46:40 UTC' });
  const edge = plot(runsOf(true, true), 'durations')?.ticks.filter(({ x }) => x > 660) ?? [];
  for (const { anchor } of edge) t.equal(anchor, 'end', 'a label at the edge is not cut');
  t.end();
});

t.test('one run is a point, and no number of runs makes a path that cannot be drawn', (t) => {
  t.match(plot(runsOf(false), 'durations')?.line, /^M[\d.]+,[\d.]+Z$/);
  for (const count of [0, 1, 2, 121, 2_000])
    for (const { line, area, ticks, bars } of trendsOf(runsOf(...Array.from({ length: count }, () => false))))
      t.notMatch(`${line} ${area} ${JSON.stringify([ticks, bars])}`, /NaN|Infinity/);
  t.end();
});

t.test('times below a plot are as exact as its span', (t) => {
  const [first] = runsOf(false);
  const labels = (ms: number): string[] => {
    const at = (offset: number): string => new Date(1e12 + offset).toISOString();
    const runs = [ms, 0].map((offset) => ({ ...first, accepted_at: at(offset) })) as RunRecord[];
    return plot(runs, 'failures')?.ticks.map(({ label }) => label) ?? [];
  };
  for (const [ms, form] of [
    [20_000, /^\d\d:\d\d:\d\d$/],
    [3_600_000, /^\d\d:\d\d$/],
    [10 * 86_400_000, /^\d{1,2} \w{3,4}$/],
  ] as const) {
    t.ok(labels(ms).length > 2);
    for (const label of labels(ms)) t.match(label, form);
  }
  t.end();
});
