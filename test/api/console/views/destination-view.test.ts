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
          ...{
            updatedAt: '2026-11-20T01:00:00Z',
            total,
            bytes: 1,
            kept: 0,
            outputs: [],
            pages: [],
            next: null,
          },
        },
      },
      { prefix, published, bundleFiles: null, now },
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

t.test('counts the files of the newest bundle and the kept ones', (t) => {
  const keptOf = (catalog: object, bundleFiles: number | null = null, prefix = '') =>
    catalogView(
      {
        ...{ kind: 'catalog', paths: ['a'], pathsOmitted: 0 },
        catalog: {
          ...{ destinationPath: 'a', isPublished: true, generation: 1, isInterrupted: false, bytes: 1 },
          ...{ updatedAt: '2026-11-20T01:00:00Z', outputs: [], pages: [], next: null, total: 5 },
          ...catalog,
        } as never,
      },
      { prefix, published: new Map(), bundleFiles, now: new Date('2026-11-20T02:00:00Z') },
    ).catalog?.kept;
  const text = '2 in this bundle, 3 kept from earlier ones';
  t.equal(keptOf({ release: null, kept: 3 }), text);
  t.equal(keptOf({ release: null, kept: 0 }, 2), null, 'the catalog knows better than the run');
  t.equal(keptOf({ release: 'r1', kept: 0 }, 2), text, 'only the run knows the files of a release');
  t.equal(keptOf({ release: 'r1', kept: 0 }), null);
  t.equal(keptOf({ release: null, kept: 3 }, null, 'notes/'), null, 'the count is about all files');
  t.end();
});

t.test('sorts files by the numbers in their names, unless a page has only some of them', (t) => {
  const outputs = ['day-10.txt', 'day-2.txt'].map((path) => ({
    ...{ path, size: 1, digest: 'sha256:ab', kind: 'file', owner: 'maps/web', url: null, isKept: false },
    updatedAt: '2026-11-20T01:00:00Z',
  }));
  const namesOf = (total: number) =>
    catalogView(
      {
        ...{ kind: 'catalog', paths: ['a'], pathsOmitted: 0 },
        catalog: {
          ...{ destinationPath: 'a', release: null, isPublished: true, generation: 1, isInterrupted: false },
          ...{ updatedAt: '2026-11-20T01:00:00Z', bytes: 2, kept: 0, pages: [], next: null, outputs, total },
        } as never,
      },
      { prefix: '', published: new Map(), bundleFiles: null, now: new Date('2026-11-20T02:00:00Z') },
    ).catalog?.outputs.map(({ path }) => path);
  t.same(namesOf(2), ['day-2.txt', 'day-10.txt']);
  t.same(namesOf(3), ['day-10.txt', 'day-2.txt']);
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
    ...{ mark: { label: 'published' }, href: 'console/runs/good', ended: { age: '1 h ago' }, error: null },
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
  const failed = (id: string, hour: number): never =>
    run(id, { finished_at: `2026-11-20T0${hour}:00:00Z`, destinations: [at('web', failure)] });
  t.match(newestRunAt([failed('3', 1), cancelled, failed('2', 0), good, failed('1', 0)], 'web', about), {
    ...{ failures: 2, failingSince: { iso: '2026-11-20T00:00:00Z', short: '20 Nov, 00:00 UTC' } },
  });
  t.match(newestRunAt([good, failed('1', 0)], 'web', about), { failures: 0, failingSince: null });
  t.end();
});
