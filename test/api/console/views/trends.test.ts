import t from 'tap';
import { holdingsOf, periodOf } from '../../../../src/api/console/views/trend-facts.ts';
import { trendsOf } from '../../../../src/api/console/views/trends.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

const done = {
  ...{ error: null, bytes_written: 0, bytes_linked: 0, bytes_kept: 0 },
  ...{ outputs_written: 0, outputs_linked: 0, outputs_kept: 0 },
};

/** Runs of one minute each, newest first. `failed` says which of them failed. */
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

t.test('describes a plot by its data', (t) => {
  t.equal(plot(runsOf(false, false), 'failures')?.about, '0 of 2 runs');
  t.equal(plot(runsOf(true, false, true), 'failures')?.about, '2 of 3 runs');
  t.equal(plot(runsOf(false), 'failures')?.about, '0 of 1 run');
  t.equal(plot(runsOf(false), 'durations')?.about, 'Each bar is a run. Dashed line: median 1 min.');
  t.equal(plot(runsOf(false), 'bytes')?.about, 'Largest 0 B, newest 0 B.');
  t.end();
});

t.test('levels are round numbers, and runs have no fractional levels', (t) => {
  const levels = (...failed: boolean[]): unknown => plot(runsOf(...failed), 'failures')?.levels;
  t.same(levels(true, false), ['1', '0']);
  // More runs than the plot has points share points.
  t.same(levels(...Array.from({ length: 240 }, () => true)), ['2', '1', '0']);
  t.same(plot(runsOf(false), 'durations')?.levels, ['1 min', '0']);
  const sized = (bytes: number): unknown =>
    plot(
      runsOf(false).map((run) => ({
        ...run,
        destinations: [{ ...done, bytes_written: bytes }],
      })) as RunRecord[],
      'bytes',
    )?.levels;
  t.same(sized(30_000), ['30 KiB', '15 KiB', '0']);
  t.same(sized(1_500_000), ['2 MiB', '1 MiB', '0']);
  t.same(sized(11_000), ['12 KiB', '6 KiB', '0']);
  t.end();
});

t.test('single runs are separate bars', (t) => {
  const shown = plot(runsOf(true, false, true), 'failures');
  t.same([shown?.line, shown?.area], ['', '']);
  t.equal(shown?.bars.length, 2, 'a successful run has none');
  t.match(shown?.bars[1], { title: '1, 9 Sept 2001, 01:46:40 UTC, failed', isFailure: true });
  for (const { bars, width } of trendsOf(runsOf(true, true)))
    for (const bar of bars) t.ok(bar.x >= 0 && bar.x + bar.width <= width, 'every bar is complete');
  const [newest, ...others] = runsOf(true, true, true, true) as [RunRecord, ...RunRecord[]];
  const late = { ...newest, accepted_at: '2026-11-20T01:02:03Z' };
  const at = plot([late, ...others], 'failures')?.bars.map(({ x }) => x) ?? [];
  t.same(
    at.map((x) => x - (at[0] ?? 0)),
    [0, 250, 500, 750],
    'evenly spaced, whatever the times of the runs',
  );
  t.end();
});

t.test('shows a plot only if it says more than a number', (t) => {
  const isShown = (runs: RunRecord[], id: string): boolean | undefined => plot(runs, id)?.isShown;
  t.equal(isShown(runsOf(false, true), 'failures'), false, 'the durations mark failed runs');
  const many = runsOf(...Array.from({ length: 121 }, (_, index) => index === 7));
  t.equal(isShown(many, 'failures'), true, 'runs that share a bar are not marked');
  t.equal(isShown(runsOf(...many.map(() => false)), 'failures'), false);
  t.equal(isShown(runsOf(false), 'queue'), false, 'no run waited');
  const late = runsOf(false).map((run) => ({ ...run, started_at: run.finished_at })) as RunRecord[];
  t.equal(isShown(late, 'queue'), true);
  t.equal(isShown(runsOf(false), 'durations'), true);
  const wrote = (...bytes: number[]): RunRecord[] =>
    runsOf(...bytes.map(() => false)).map((run, index) => ({
      ...run,
      destinations: [{ ...done, bytes_written: bytes[index] ?? 0, outputs_written: 2 }],
    })) as RunRecord[];
  for (const [bytes, shown] of [
    [[1024, 1024], false],
    [[1024, 0, 0], false],
    [[1024, 0, 2048], true],
  ] as const)
    t.equal(isShown(wrote(...bytes), 'bytes'), shown, bytes.join());
  t.equal(isShown(wrote(1024, 2048), 'release-files'), false);
  t.end();
});

t.test('durations have a median, releases their bytes and files', (t) => {
  const runs = runsOf(...Array.from({ length: 20 }, () => false)).map((run, index) => ({
    ...run,
    finished_at: new Date(Date.parse(run.started_at ?? '') + (20 - index) * 1000).toISOString(),
    destinations: [{ ...done, bytes_kept: 1024, outputs_kept: 2 }],
  })) as RunRecord[];
  const durations = plot(runs, 'durations');
  t.equal(durations?.about, 'Each bar is a run. Dashed line: median 10.5 s.');
  t.same(durations?.marks, [{ y: 47.5, name: 'median' }]);
  t.equal(plot(runs, 'release-bytes')?.about, 'Largest 1 KiB, newest 1 KiB.');
  t.equal(plot(runs, 'release-files')?.about, 'Largest 2, newest 2.');
  t.end();
});

t.test('each destination lists the last published size of each bundle path, largest first', (t) => {
  const at = (destination_id: string, destination_path: string | null, bytes: number, more = {}) => ({
    ...{ destination_id, destination_path, error: null, ...more },
    ...{ outputs_written: 1, outputs_linked: 0, outputs_kept: 1 },
    ...{ bytes_written: bytes, bytes_linked: 0, bytes_kept: 0 },
  });
  const runs = [
    { channel: null, destinations: [at('web', 'a', 1024), at('site', '.', 512)] },
    { channel: 'preview', destinations: [at('site', '.', 9)] },
    { channel: null, destinations: [at('web', 'b', 2048), at('web', 'c', 1, { error: {} })] },
    { channel: null, destinations: [at('web', 'a', 5), at('web', null, 5)] },
  ] as RunRecord[];
  t.same(holdingsOf(runs), [
    {
      id: 'web',
      text: '2 bundles',
      bundles: [
        { path: 'b', text: '2 files, 2 KiB', width: 100 },
        { path: 'a', text: '2 files, 1 KiB', width: 50 },
      ],
    },
    {
      id: 'site',
      text: '1 bundle',
      bundles: [{ path: 'at the root', text: '2 files, 512 B', width: 25 }],
    },
  ]);
  t.end();
});

/** Runs with these durations in seconds, oldest first. */
function lasting(...seconds: number[]): RunRecord[] {
  return runsOf(...seconds.map(() => false)).map((run, index) => {
    const started = Date.parse(run.started_at ?? '');
    const finished = new Date(started + (seconds.at(-1 - index) ?? 0) * 1000).toISOString();
    return { ...run, run_id: `maps.${seconds.length - 1 - index}`, finished_at: finished };
  });
}

t.test('one run that takes much longer than the others is cut off and labelled', (t) => {
  const few = plot(lasting(50, 2, 3, 1), 'durations');
  t.same(few?.levels, ['4 s', '2 s', '0']);
  t.equal(few?.about, 'Each bar is a run. Dashed line: median 2.5 s. 1 long bar cut off.');
  t.same(
    few?.bars.map(({ y, isCut, runId }) => [y, isCut, runId]),
    [
      [0, true, 'maps.0'],
      [50, false, 'maps.1'],
      [25, false, 'maps.2'],
      [75, false, 'maps.3'],
    ],
  );
  t.same(
    few?.labels.map(({ x, text }) => [x, text]),
    [
      [12.5, '50 s'],
      [37.5, '2 s'],
      [62.5, '3 s'],
      [87.5, '1 s'],
    ],
  );
  t.ok(few?.hasEachTick, 'each of a few bars has its time');
  const many = plot(lasting(90, ...Array.from({ length: 49 }, () => 2)), 'durations');
  t.same(
    many?.labels.map(({ text }) => text),
    ['1 min 30 s'],
    'only bars that are cut off have one',
  );
  t.same([many?.hasEachTick, many?.bars[0]?.runId], [false, null]);
  const even = plot(lasting(4, 3, 2, 1), 'durations');
  t.notOk(even?.bars.some(({ isCut }) => isCut));
  t.end();
});

t.test('the period is a day, or the first and the last one', (t) => {
  const at = (accepted_at: string): { accepted_at: string } => ({ accepted_at });
  t.equal(periodOf([at('2026-11-20T02:00:00Z'), at('2026-11-20T01:00:00Z')]), '20 Nov 2026');
  t.equal(periodOf([at('2026-11-20T02:00:00Z'), at('2026-10-02T01:00:00Z')]), '2 Oct 2026 to 20 Nov 2026');
  t.equal(periodOf([]), '');
  t.end();
});

t.test('one run is a bar, and any number of runs makes a drawable path', (t) => {
  t.equal(plot(runsOf(false), 'durations')?.bars.length, 1);
  for (const count of [0, 1, 2, 121, 2_000])
    for (const { line, area, levels, marks, bars } of trendsOf(
      runsOf(...Array.from({ length: count }, () => false)),
    ))
      t.notMatch(`${line} ${area} ${JSON.stringify([levels, marks, bars])}`, /NaN|Infinity/);
  t.end();
});

t.test('the precision of times below a plot depends on its span', (t) => {
  const [first] = runsOf(false);
  const labels = (ms: number): string[] => {
    const at = (offset: number): string => new Date(1e12 + offset).toISOString();
    const runs = [ms, 0].map((offset) => ({ ...first, accepted_at: at(offset) })) as RunRecord[];
    return plot(runs, 'failures')?.ticks.map(({ text }) => text) ?? [];
  };
  for (const [ms, form] of [
    [20_000, /^(\d{1,2} \w{3,4}, )?\d\d:\d\d:\d\d$/],
    [3_600_000, /^(\d{1,2} \w{3,4}, )?\d\d:\d\d$/],
    [10 * 86_400_000, /^\d{1,2} \w{3,4}$/],
  ] as const) {
    t.equal(labels(ms).length, 2);
    for (const label of labels(ms)) t.match(label, form);
  }
  t.end();
});

t.test('each plot of bars marks failed runs, and the line of the median does not cross a mark', (t) => {
  const runs = lasting(10, 10, 9, 10).map((run) => ({
    ...run,
    status: run.run_id === 'maps.2' ? 'failed' : 'succeeded',
    destinations: [{ ...done, bytes_written: 1024, outputs_written: 1 }],
  })) as RunRecord[];
  for (const id of ['durations', 'bytes', 'release-bytes'])
    t.same(
      plot(runs, id)?.labels.map(({ isFailure }) => isFailure),
      [false, false, true, false],
      id,
    );
  const durations = plot(runs, 'durations');
  t.equal(durations?.labels[2]?.y, durations?.marks[0]?.y, 'the mark is on the line, not below it');
  t.match(durations?.about, /Red, ✕: failed\./);
  t.end();
});

t.test('times are centered below their bars, and the last of many ends with the plot', (t) => {
  const day = 86_400_000;
  const runs = runsOf(...Array.from({ length: 10 }, () => false)).map((run, index) => ({
    ...run,
    accepted_at: new Date(1e12 - index * day).toISOString(),
  })) as RunRecord[];
  t.same(
    plot(runs, 'durations')?.ticks.map(({ x, anchor }) => [x, anchor]),
    [
      [5, 'middle'],
      [55, 'middle'],
      [100, 'end'],
    ],
  );
  t.end();
});
