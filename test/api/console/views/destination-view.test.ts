import t from 'tap';
import { catalogView, newestRunAt, placementOf } from '../../../../src/api/console/views/destination-view.ts';

t.test('settings of a destination are described in plain words', (t) => {
  const settings = {
    backend: 'local',
    mapping: 'preserve_relative',
    workflow: 'additive',
    layout: 'in_place',
    max_rate: null,
  } as const;
  t.same(placementOf(settings), {
    storage: 'Local directory',
    rate: null,
    publishing:
      'Each bundle is published at its own path, in place, file by file. Files that a new version drops stay published.',
  });
  const other = { ...settings, mapping: 'fixed', layout: 'releases', max_rate: 1024 } as const;
  const { publishing } = placementOf(other);
  t.match(publishing, /^Only the newest bundle is published, as releases .* Transfers use at most 1 KiB/);
  t.notMatch(publishing, /_/);
  t.end();
});

t.test('few bundles are links with their ages, and few files need no filter', (t) => {
  const now = new Date('2026-11-20T02:00:00Z');
  const published = new Map([['a', '2026-11-20T01:00:00Z']]);
  const view = (count: number, total: number, prefix = ''): ReturnType<typeof catalogView> =>
    catalogView(
      {
        ...{ kind: 'catalog', pathsOmitted: 0 },
        paths: Array.from({ length: count }, (_, index) => String.fromCharCode(97 + index)),
        catalog: {
          ...{ destinationPath: 'b', release: null, isPublished: true, generation: 1, isInterrupted: false },
          ...{ updatedAt: '2026-11-20T01:00:00Z', total, bytes: 1, outputs: [], pages: [], next: null },
        },
      },
      { prefix, published, now },
    );
  const few = view(2, 20);
  t.same([few.isShortList, few.hasFilter], [true, false]);
  t.same(few.bundles, [
    { path: 'a', name: 'a', isCurrent: false, age: '1 h ago' },
    { path: 'b', name: 'b', isCurrent: true, age: null },
  ]);
  t.same([view(9, 21).isShortList, view(9, 21).hasFilter], [false, true]);
  t.ok(view(2, 1, 'notes/').hasFilter, 'a filter can be removed');
  t.end();
});

t.test('the newest run of a destination is the one that ended there, or failed before', (t) => {
  const now = new Date('2026-11-20T02:00:00Z');
  const run = (id: string, more: object): never =>
    ({
      ...{ run_id: id, error: null, finished_at: '2026-11-20T01:00:00Z', destinations: [] },
      ...{ pipeline_id: 'maps', rerun_of: null, triggered_by: { kind: 'request', token_id: 'ci' } },
      ...more,
    }) as never;
  const at = (id: string, error: object | null = null): object => ({ destination_id: id, error });
  const about = { place: '/srv/web', now };
  const failure = { code: 'source_unavailable', message: 'the source is gone', hint: null, findings: [] };
  const waiting = run('waiting', { finished_at: null });
  const other = run('other', { destinations: [at('other', failure)] });
  const good = run('good', { destinations: [at('web')] });
  const cancelled = run('cancelled', { error: { ...failure, code: 'cancelled' } });
  t.equal(newestRunAt([waiting, other, cancelled], 'web', about), null);
  t.match(newestRunAt([waiting, other, cancelled, good], 'web', about), {
    ...{ starter: { token: 'ci', how: 'manual start' } },
    ...{ mark: { label: 'succeeded' }, href: 'console/runs/good', ended: { age: '1 h ago' }, error: null },
  });
  for (const more of [{ error: failure }, { destinations: [at('web'), at('web', failure)] }])
    t.match(newestRunAt([run('failed', more), good], 'web', about), {
      ...{ mark: { label: 'failed' }, href: 'console/runs/failed', error: { title: 'The source is gone' } },
    });
  const blocked = { ...failure, hint: 'move them; --force deletes them' };
  t.match(newestRunAt([run('blocked', { destinations: [at('web', blocked)] })], 'web', about), {
    error: {
      place: '/srv/web',
      command: 'waybill run --config waybill.yml --pipeline maps --destination web --force --dry-run',
    },
  });
  t.end();
});
