import t from 'tap';
import { pipelineView } from '../../../../src/api/console/views/pipeline-view.ts';
import type { PipelineState } from '../../../../src/api/pipelines/pipelines-route.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

const now = new Date('2026-11-20T02:00:00Z');
const state = {
  ...{ pipeline_id: 'maps', source: { backend: 'http_upload' }, schedule: null, watch: false },
  ...{ next_run: null, waiting: 0, paused: null, running: null, last_run: null, last_success: null },
  destinations: [
    {
      ...{ destination_id: 'web', backend: 'local', mapping: 'preserve_relative', workflow: 'additive' },
      ...{ layout: 'in_place', max_rate: null, public_base_url: null },
    },
  ],
} as unknown as PipelineState;
const result = {
  ...{ destination_id: 'web', action: 'upsert_additive', destination_path: 'a', release: null, reason: null },
  ...{ outputs_written: 1, outputs_linked: 0, outputs_kept: 1, outputs_removed: 0, error: null },
  ...{ bytes_written: 1024, bytes_linked: 0, bytes_kept: 1024, changes: [], changes_omitted: 0 },
};
const run = (minute: number, destination: object, more: object = {}): RunRecord =>
  ({
    ...{ run_id: `maps.${minute}`, pipeline_id: 'maps', status: 'succeeded', error: null },
    ...{ accepted_at: `2026-11-20T01:${minute}:00Z`, started_at: null, next_try_at: null, channel: null },
    ...{ finished_at: `2026-11-20T01:${minute}:00Z`, rerun_of: null, rerunnable: false, bundle_path: null },
    ...{ triggered_by: { kind: 'upload', tick: null, token_id: 'ci' } },
    destinations: [{ ...result, ...destination }],
    ...more,
  }) as never;
const cardOf = (...runs: RunRecord[]) => pipelineView(state, runs, now).places[0];

t.test('the card of a destination lists the newest bundle at each path with its files', (t) => {
  const same = {
    action: 'skip_same',
    outputs_written: 0,
    outputs_kept: 2,
    bytes_written: 0,
    bytes_kept: 2048,
  };
  const card = cardOf(
    run(50, { destination_path: 'other' }, { channel: 'preview' }),
    run(40, same),
    run(35, { destination_path: 'b', error: { code: 'storage_transient' } }),
    run(30, { outputs_kept: 0, bytes_kept: 0, destination_path: 'b' }),
    run(20, {}),
  );
  t.match(card?.published, [
    { name: 'a', path: 'a', files: '2 files, 2 KiB', at: { age: '40 min ago' } },
    { name: 'b', path: 'b', files: '1 file, 1 KiB', at: { age: '30 min ago' } },
  ]);
  t.equal(card?.published.length, 2);
  t.equal(card?.publishedOmitted, 0);
  t.equal(cardOf(run(40, same))?.published[0]?.at, null, 'the publication itself is too old to be listed');
  t.end();
});

t.test('names a bundle at the root after itself or its release', (t) => {
  const nameOf = (release: string | null, bundlePath: string | null) =>
    cardOf(run(10, { destination_path: '.', release }, { bundle_path: bundlePath }))?.published[0]?.name;
  t.equal(nameOf('r1', 'session-1'), 'session-1');
  t.equal(nameOf('r1', '.'), 'r1');
  t.equal(nameOf(null, null), 'at the root');
  t.end();
});

t.test('a card names three bundles, and counts the others', (t) => {
  const card = cardOf(
    ...[50, 40, 30, 20, 10].map((minute) => run(minute, { destination_path: `${minute}` })),
  );
  t.same(
    card?.published.map(({ name }) => name),
    ['50', '40', '30'],
  );
  t.equal(card?.publishedOmitted, 2);
  t.end();
});

t.test('a failing pipeline names the first of the runs that failed in a row', (t) => {
  const failed = (minute: number): RunRecord =>
    run(
      minute,
      { action: 'error', error: { code: 'x', message: 'no', hint: null, findings: [] } },
      {
        status: 'failed',
      },
    );
  const runs = [failed(50), failed(40), run(30, {}), failed(20)];
  const failing = { ...state, last_run: runs[0] } as PipelineState;
  t.match(pipelineView(failing, runs, now).failed, {
    ...{ failures: 2, since: { iso: '2026-11-20T01:40:00Z', short: '20 Nov, 01:40 UTC' } },
    ended: { age: '10 min ago' },
  });
  t.equal(pipelineView(state, runs, now).failed, null);
  t.end();
});

t.test('a paused pipeline says what its waiting run waits for', (t) => {
  const waiting = run(50, {}, { status: 'queued', finished_at: null, destinations: [] });
  const paused = { ...state, waiting: 1, paused: { since: '2026-11-20T01:30:00Z', reason: null } } as never;
  t.match(pipelineView(paused, [waiting, run(40, {})], now), {
    pausedSince: { short: '20 Nov, 01:30 UTC', age: '30 min ago' },
    waitingRun: 'maps.50',
    runs: [{ note: 'Until the pipeline is resumed' }, { note: null }],
  });
  const idle = { ...state, waiting: 1 };
  t.match(pipelineView(idle, [waiting], now), { pausedSince: null, runs: [{ note: null }] });
  t.end();
});

t.test('the state of a destination is the one after the newest run for all readers', (t) => {
  const failure = { code: 'x', message: 'no', hint: null, findings: [] };
  t.equal(cardOf()?.last, null);
  t.match(cardOf(run(40, { error: failure }, { channel: 'preview' }), run(30, {}))?.last, {
    ...{ label: 'published', at: { age: '30 min ago' } },
  });
  t.match(cardOf(run(40, { error: failure }), run(30, {}))?.last, { label: 'failed' });
  t.end();
});
