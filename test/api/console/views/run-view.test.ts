import t from 'tap';
import { runView } from '../../../../src/api/console/views/run-view.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

const at = (seconds: number): string => new Date(Date.UTC(2026, 10, 20, 1, 2, seconds)).toISOString();
const now = new Date(at(20));
const error = { code: 'storage_transient', message: 'gone', hint: 'wait', retryable: true, findings: [] };
const run = (more: object): RunRecord =>
  ({
    ...{ run_id: 'maps.1', pipeline_id: 'maps', status: 'running', error: null, destinations: [] },
    ...{ accepted_at: at(0), queued_at: at(1), started_at: at(10), finished_at: null, attempt: 1 },
    ...{ next_try_at: null, retry_until: null, last_error: null, rerun_of: null, rerunnable: false },
    ...{ bundle_path: 'session-1', channel: null, progress: null, warnings: [], trace_id: null },
    ...{ failed_deliveries: [], failed_deliveries_omitted: 0 },
    ...{ triggered_by: { kind: 'upload', tick: null, token_id: 'ci' } },
    ...more,
  }) as never;
const done = {
  ...{ destination_id: 'web', action: 'publish_new', reason: null, destination_path: '.', release: null },
  ...{ outputs_written: 2, outputs_linked: 0, outputs_kept: 0, outputs_removed: 0, bytes_written: 9 },
  ...{ changes: [], changes_omitted: 0, error: null, finished_at: at(15) },
};

t.test('a live run shows its rate, the remaining time, and each destination', (t) => {
  const counts = { outputs_done: 1, outputs_total: 4, bytes_done: 10_240, bytes_total: 40_960 };
  const one = { destination_id: 'site', ...counts, outputs_total: 2 };
  const progress = { stage: 'writing', ...counts, destinations: [one] };
  const view = runView(run({ progress, destinations: [done] }), ['web', 'site', 'late'], now);
  t.match(view.progress, { text: '1 of 4 files, 10 KiB of 40 KiB', pace: '1 KiB/s, about 30 s left' });
  t.match(view.destinations, [
    { id: 'web', mark: { label: 'published' }, progress: null },
    { id: 'site', mark: { label: 'writing' }, counts: '1 of 2 files, 10 KiB of 40 KiB' },
    { id: 'late', mark: { label: 'preparing' }, progress: null },
  ]);
  t.match(view.destinations[1]?.progress, { done: 10_240, total: 40_960 });
  t.equal(runView(run({ progress: { ...progress, bytes_done: 0 } }), [], now).progress?.pace, null);
  t.end();
});

t.test('the bar of a destination extends from its start to its end, or to now', (t) => {
  const [first, second] = [
    { ...done, finished_at: at(14) },
    { ...done, finished_at: at(15) },
  ];
  const bars = (more: object) =>
    runView(run(more), ['web', 'late'], now).destinations.map(({ bar }) => bar ?? null);
  t.match(bars({ destinations: [first, second] }), [
    { x: 0, width: 40, took: '4 s', isOver: true },
    { x: 40, width: 10, took: '1 s', isOver: true },
    { x: 0, width: 100, took: '10 s', isOver: false },
  ]);
  const over = { destinations: [{ ...done, finished_at: null }], status: 'failed', finished_at: at(12) };
  t.match(bars(over), [{ x: 0, width: 100, took: '2 s', isOver: true }, null]);
  t.same(bars({ started_at: null, status: 'queued' }), [null, null]);
  const instant = { destinations: [{ ...done, finished_at: at(10) }], status: 'failed', finished_at: at(10) };
  t.match(bars(instant), [{ x: 0, width: 1.5, took: '0 ms' }, null]);
  t.end();
});

t.test('a run lists its own error and the errors of its destinations by name', (t) => {
  const failed = { ...done, error, finished_at: null };
  const view = runView(run({ status: 'failed', finished_at: at(20), destinations: [done, failed] }), [], now);
  t.match(view.errors, [{ destinationId: 'web', title: 'Gone', text: null, hint: 'Wait.' }]);
  t.equal(view.errors.length, 1);
  t.equal(view.rerunHelps, true);
  t.end();
});

t.test('events and log lines of a run are sorted by time, and name the token', (t) => {
  const delivery = {
    ...{ notifier_id: 'hook', event_id: '1', event_type: 'bundle.published', status: 'given_up' },
    ...{ tries: 3, last_error: null, next_try_at: null, updated_at: at(18) },
  };
  const view = runView(
    run({
      ...{ status: 'succeeded', finished_at: at(16), destinations: [done] },
      ...{ attempt: 2, last_error: error, failed_deliveries: [delivery] },
    }),
    [],
    now,
    { lines: [{ at: at(12), level: 'warn', message: 'no answer: trying again', destinationId: 'web' }] },
  );
  t.same(
    view.history.map(({ text }) => text),
    [
      'Accepted: upload by ci',
      'Waiting',
      'Started, try 2 after: gone',
      'web: no answer: trying again',
      'web: published, 2 files written',
      'Run succeeded after 6 s',
      'Notification to hook: not delivered after 3 tries',
    ],
  );
  t.match(view.history[3], { tone: 'warning', isLogLine: true });
  t.same(
    view.history.map(({ time }) => time),
    ['01:02:00', '+1 s', '+10 s', '+12 s', '+15 s', '+16 s', '+18 s'],
  );
  t.end();
});

t.test('the first steps of a run are one event if they take less than a second', (t) => {
  const textsOf = (more: object) => runView(run(more), [], now).history.map(({ text }) => text);
  const early = { queued_at: at(0), started_at: new Date(Date.parse(at(0)) + 999).toISOString() };
  t.same(textsOf(early), ['Accepted and started: upload by ci']);
  t.same(textsOf({ queued_at: at(0), started_at: at(1) }), ['Accepted: upload by ci', 'Started']);
  const waiting = { queued_at: at(0), started_at: null, status: 'queued' };
  t.same(textsOf(waiting), ['Accepted: upload by ci']);
  t.same(textsOf({ ...waiting, attempt: 2, last_error: error }), [
    'Accepted: upload by ci',
    'Waiting, try 2 to come after: gone',
  ]);
  t.end();
});

t.test('changes leave out files that are the same for readers', (t) => {
  const change = (path: string, fate: string, why: string) => ({ path, fate, why });
  const same = change('b', 'refresh', 'source_differs');
  const mixed = { ...done, changes: [change('a', 'add', 'not_recorded'), same] };
  const view = runView(run({ destinations: [mixed, { ...done, changes: [same] }] }), [], now);
  t.match(view.changes, [{ names: 'web', lines: [{ path: 'a', word: 'new' }], same: '1 file unchanged' }]);
  t.equal(view.changes.length, 1);
  t.end();
});

t.test('an update that changed no file is shown as unchanged', (t) => {
  const same = { path: 'a', fate: 'refresh', why: 'source_differs' };
  const kept = { ...done, action: 'upsert_additive', outputs_written: 0, outputs_kept: 2, bytes_written: 0 };
  const view = (...destinations: object[]) =>
    runView(run({ status: 'succeeded', finished_at: at(16), destinations }), [], now);
  const unchanged = view({ ...kept, changes: [same] });
  t.match(unchanged.destinations, [{ mark: { label: 'unchanged', tone: 'neutral' } }]);
  t.same(unchanged.outcome, {
    heading: 'Checked in 6 s: no file changed',
    details: '2 files unchanged, waited 10 s',
  });
  t.ok(unchanged.history.some(({ text }) => text === 'web: unchanged'));
  const others: object[] = [
    { outputs_written: 1 },
    { outputs_removed: 1 },
    { changes_omitted: 1 },
    { changes: [{ ...same, fate: 'change' }] },
  ];
  for (const more of others) {
    const changed = view({ ...kept, ...more });
    t.match(changed.destinations, [{ mark: { label: 'updated' } }]);
    t.match(changed.outcome?.heading, /^Published in /);
  }
  t.match(view({ ...kept, error }).destinations, [{ mark: { label: 'updated', tone: 'failure' } }]);
  t.match(view({ ...kept, action: 'publish_new' }).destinations, [{ mark: { label: 'published' } }]);
  t.end();
});
