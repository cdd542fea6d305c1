import t from 'tap';
import { placementOf, releaseRows } from '../../../../src/api/console/views/destination-view.ts';

const release = {
  ...{ state: 'complete', isCurrent: false, isLastGood: false, isRolledBack: false, isBeingRemoved: false },
  ...{ channels: [], outputs: 1, bytes: 1, bundle: null, activatedAt: null, writtenAt: null },
} as const;

t.test('releases are listed in the order of activation, with one action each', (t) => {
  const releases = [
    // By its id, it is the newest.
    { ...release, id: 'r9', activatedAt: '2026-11-20T01:00:00Z' },
    { ...release, id: 'r8' },
    { ...release, id: 'r7', activatedAt: '2026-11-20T03:00:00Z', isRolledBack: true },
    { ...release, id: 'r6', activatedAt: '2026-11-20T04:00:00Z', isCurrent: true },
    { ...release, id: 'r5', activatedAt: '2026-11-20T02:00:00Z', state: 'writing' },
  ] as never;
  t.same(
    releaseRows({ releases }, new Date()).map(({ id, verb, before }) => [id, verb, before?.id ?? null]),
    [
      ['r6', null, 'r7'],
      ['r7', 'promote', 'r5'],
      ['r5', null, 'r9'],
      ['r9', 'rollback', null],
      ['r8', 'promote', 'r6'],
    ],
  );
  t.end();
});

t.test('a release that is not complete says what it is, and is compared with no other', (t) => {
  const releases = [
    { ...release, id: 'r3', activatedAt: '2026-11-20T03:00:00Z', isCurrent: true, channels: ['preview'] },
    { ...release, id: 'r2', state: 'abandoned', isBeingRemoved: true },
    { ...release, id: 'r1', state: 'unreadable', outputs: null, bytes: null },
  ] as never;
  t.same(
    releaseRows({ releases }, new Date()).map(({ badges, note, before, verb }) => [
      badges.map(({ label, tone }) => `${label}: ${tone}`),
      ...[note, before?.id ?? null, verb],
    ]),
    [
      [['current: success', 'channel preview: neutral'], null, null, null],
      [
        ['being removed: warning', 'incomplete: warning'],
        ...['A run stopped before it was complete. A later run removes it.', 'r3', null],
      ],
      [
        ['unreadable: failure'],
        ...['Its catalog is invalid, or from a newer version of waybill.', null, null],
      ],
    ],
  );
  t.end();
});

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
    bundles: 'each at its own path',
    omitted: 'stay published',
    publication: 'in place, file by file',
    rate: null,
  });
  t.notMatch(Object.values(placementOf({ ...settings, mapping: 'fixed', layout: 'releases' })).join(), /_/);
  t.end();
});
