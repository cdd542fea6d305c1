import t from 'tap';
import { attentionOf } from '../../../../src/api/console/views/attention-view.ts';
import { bundleOf, rerunHelps, runName } from '../../../../src/api/console/views/run-words.ts';
import type { PipelineState } from '../../../../src/api/pipelines/pipelines-route.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

const now = new Date('2026-11-20T01:10:03Z');
const state = (id: string, more: Partial<PipelineState> = {}): PipelineState => ({
  ...{ pipeline_id: id, source: { backend: 'http_upload' }, destinations: [], schedule: null },
  ...{ watch: false, next_run: null, waiting: 0, paused: null, running: null },
  ...{ last_run: null, last_success: null },
  ...more,
});
const run = (more: object): RunRecord =>
  ({
    ...{ run_id: 'maps.1', pipeline_id: 'maps', status: 'succeeded', error: null, destinations: [] },
    ...{ accepted_at: '2026-11-20T01:02:03Z', started_at: null, finished_at: '2026-11-20T01:03:03Z' },
    ...{ next_try_at: null, rerun_of: null, rerunnable: true, bundle_path: 'session-1' },
    ...{ triggered_by: { kind: 'upload', tick: null, token_id: 'ci' } },
    ...more,
  }) as never;
const error = {
  code: 'unmanaged_content',
  message: 'in the way',
  hint: 'move it',
  retryable: false,
  findings: [],
};
const failed = run({ status: 'failed', error });
const running = run({ run_id: 'maps.2', status: 'running', finished_at: null });

t.test('failures come first, each with its cause, its starter and the next step', (t) => {
  const paused = { since: '2026-11-20T01:02:03Z', reason: 'the disk' };
  const seen = attentionOf(
    [
      { state: state('well'), runs: [run({}), failed] },
      { state: state('paused', { paused }), runs: [run({})] },
      { state: state('maps'), runs: [running, failed] },
      { state: state('new'), runs: [] },
    ],
    now,
  );
  t.match(seen, {
    ...{ heading: '1 pipeline failing', pausedHeading: '1 pipeline paused', mark: { tone: 'failure' } },
  });
  t.equal(seen.text, '2 of the last 4 runs failed');
  t.match(seen.items, [
    {
      pipelineId: 'maps',
      destinationId: null,
      error: { title: 'Files in the way', text: 'In the way.', hint: 'Move it.', place: null },
      run: {
        id: 'maps.1',
        bundle: 'session-1',
        starter: { token: 'ci', how: 'upload' },
        at: { age: '8 min ago', text: '20 Nov 2026, 01:02:03 UTC' },
      },
    },
  ]);
  t.match(
    attentionOf([{ state: state('paused', { paused }), runs: [run({})] }], now),
    { heading: null, pausedHeading: '1 pipeline paused' },
    'a pause alone is no failure',
  );
  t.match(seen.paused, [{ pipelineId: 'paused', reason: 'The disk.', waiting: 0 }]);
  const destinations = [{ destination_id: 'web', error }];
  const placed = attentionOf(
    [{ state: state('maps'), runs: [run({ status: 'failed', destinations })] }],
    now,
    [{ notifierId: 'journal', count: 2, reason: 'The disk is full.' }],
  );
  t.match(placed.items[0], { destinationId: 'web', error: { title: 'Files in the way' } });
  t.match(placed, { heading: '1 pipeline failing, 2 undelivered events', mark: { tone: 'failure' } });
  t.end();
});

t.test('a pipeline is healthy if its last run succeeded or was cancelled', (t) => {
  const cancelled = run({ status: 'failed', error: { ...error, code: 'cancelled' } });
  for (const runs of [[run({}), failed], [cancelled, failed], []])
    t.match(attentionOf([{ state: state('maps'), runs }], now), {
      ...{ heading: 'No pipeline is failing', mark: { tone: 'success' } },
      items: { length: 0 },
    });
  t.end();
});

t.test('suggests a rerun for temporary causes, and none if the same bytes would fail again', (t) => {
  t.notOk(rerunHelps(failed));
  t.notOk(rerunHelps(run({})));
  t.ok(rerunHelps(run({ status: 'failed', error: { ...error, retryable: true } })));
  t.ok(rerunHelps(run({ status: 'failed', destinations: [{ error: { ...error, retryable: true } }] })));
  t.end();
});

t.test('a run is named by its bundle, or by its time if it has none or several', (t) => {
  const at = (...paths: (string | null)[]): unknown =>
    bundleOf(
      run({ bundle_path: null, destinations: paths.map((destination_path) => ({ destination_path })) }),
    );
  t.equal(bundleOf(run({})), 'session-1');
  t.equal(at('a', 'a', '.'), 'a');
  t.equal(at('a', 'b'), null);
  t.equal(at('.', null), null);
  t.equal(runName(run({})), 'session-1');
  const root = run({ bundle_path: null, accepted_at: '2026-11-20T01:02:03Z', destinations: [] });
  t.equal(runName(root), 'Run of 20 Nov, 01:02');
  t.end();
});
