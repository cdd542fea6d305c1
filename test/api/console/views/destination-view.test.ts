import t from 'tap';
import { catalogView, placementOf } from '../../../../src/api/console/views/destination-view.ts';

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
