import t from 'tap';
import { overviewView, statusSummaryOf } from '../../../../src/api/console/views/overview-view.ts';
import type { PipelineState } from '../../../../src/api/pipelines/pipelines-route.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';

const state: PipelineState = {
  ...{ pipeline_id: 'maps', source: { backend: 'http_upload' }, destinations: [], schedule: null },
  ...{ watch: false, next_run: null, waiting: 0, paused: null, running: null },
  ...{ last_run: null, last_success: null },
};

t.test('the card of a paused pipeline shows the pause', (t) => {
  const cardOf = (more: Partial<PipelineState>): unknown => {
    const [card] = overviewView([{ state: { ...state, ...more }, runs: [] }], new Date());
    return [card?.state.label, card?.startedBy];
  };
  const paused = { since: '2026-11-20T01:02:03Z', reason: null };
  t.same(cardOf({}), ['no runs yet', 'on upload']);
  t.same(cardOf({ paused }), ['paused', 'on resume']);
  t.end();
});

t.test('links the most important status of a pipeline to its run', (t) => {
  const accepted = {
    run_id: 'maps.1',
    accepted_at: '2026-11-20T01:02:03Z',
    error: null,
    destinations: [],
    next_try_at: null,
  };
  const last = (more: object): PipelineState => ({ ...state, last_run: { ...accepted, ...more } as never });
  const failure = { code: 'unmanaged_content', message: 'it is in the way' };
  const failed = last({ status: 'failed', finished_at: '2026-11-20T01:03:03Z', error: failure });
  t.equal(statusSummaryOf(state), null);
  t.equal(statusSummaryOf(last({ status: 'running', finished_at: null })), null);
  t.match(statusSummaryOf(failed), {
    ...{ tone: 'failure', runId: 'maps.1', text: 'It is in the way.' },
    heading: 'Files in the way',
  });
  const paused = { since: '2026-11-20T01:02:03Z', reason: 'the disk' };
  t.match(statusSummaryOf({ ...failed, paused }), {
    ...{
      tone: 'warning',
      heading: 'Paused since 20 Nov 2026, 01:02:03 UTC',
      runId: null,
      failedRunId: 'maps.1',
    },
    ...{
      text: 'The disk.',
      waits: 'No run starts until the pipeline is resumed. Uploads are still accepted.',
    },
  });
  t.end();
});

t.test('pipelines that need attention come first', (t) => {
  const run = (status: string): RunRecord =>
    ({
      ...{ run_id: 'x.1', status, error: null, destinations: [], accepted_at: '2026-11-20T01:02:03Z' },
      ...{ started_at: null, finished_at: '2026-11-20T01:03:03Z', next_try_at: null },
      ...(status === 'failed' ? { error: { code: 'unmanaged_content', message: 'in the way' } } : {}),
    }) as never;
  const pipeline = (id: string, more: Partial<PipelineState>, ...runs: RunRecord[]) => ({
    state: { ...state, pipeline_id: id, last_run: runs[0] ?? null, ...more },
    runs,
  });
  const cards = overviewView(
    [
      pipeline('well', {}, run('succeeded')),
      pipeline('shaky', {}, run('succeeded'), run('failed'), run('failed')),
      pipeline('paused', { paused: { since: '2026-11-20T01:02:03Z', reason: null } }, run('succeeded')),
      pipeline('failing', {}, run('failed')),
      pipeline('new', {}),
    ],
    new Date('2026-11-20T01:04:03Z'),
  );
  t.same(
    cards.map(({ id }) => id),
    ['failing', 'paused', 'shaky', 'well', 'new'],
  );
  t.match(cards[2]?.trend, { failed: 2, total: 3, bars: { length: 3 }, gaps: { length: 17 } });
  t.match(cards[2]?.trend.bars[0]?.cross, /^M/, 'color is not the only mark of a failure');
  t.match(cards[2]?.trend.bars[0], { tone: 'failure', title: 'failed, 20 Nov 2026, 01:02:03 UTC, 0 ms' });
  t.end();
});
