import t from 'tap';
import {
  activatorOf,
  differenceView,
  effectText,
  releaseChoices,
  releaseRows,
} from '../../../../src/api/console/views/release-view.ts';

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

t.test('a release is compared in size with the one before it, and has the time of its bundle', (t) => {
  const made = (id: string, activatedAt: string, outputs: number, bytes: number, created: string) => ({
    ...{ ...release, id, activatedAt, outputs, bytes, bundle: { path: 'site', created } },
  });
  const releases = [
    made('r4', '2026-11-20T04:00:00Z', 2, 2048, '2026-11-20T03:59:00Z'),
    made('r3', '2026-11-20T03:00:00Z', 3, 2048, '2026-11-20T02:59:00Z'),
    made('r2', '2026-11-20T02:00:00Z', 1, 1024, '2026-11-20T02:59:00Z'),
    made('r1', '2026-11-20T01:00:00Z', 1, 1024, '<no time>'),
  ] as never;
  const rows = releaseRows({ releases }, new Date());
  t.same(
    rows.map(({ growth, made: at }) => [growth, at?.short ?? null]),
    [
      ['−1 file', '20 Nov, 03:59'],
      ['+2 files, +1 KiB', '20 Nov, 02:59'],
      [null, '20 Nov, 02:59'],
      [null, null],
    ],
  );
  t.same(
    releaseChoices(rows).map(({ label }) => label),
    ['site of 20 Nov, 03:59', 'site of 20 Nov, 02:59, r3', 'site of 20 Nov, 02:59, r2', 'site'],
    'every release has another name',
  );
  t.end();
});

t.test('a release names who made it current only if its run did', (t) => {
  const run = {
    href: '',
    starter: 'ci',
    files: 1,
    startedAt: '2026-11-20T01:00:00Z',
    finishedAt: '2026-11-20T01:00:09Z',
  };
  const at = (iso: string) => ({ active: { iso, text: '', age: '', short: '' } });
  t.equal(activatorOf(run, at('2026-11-20T01:00:05.000Z')), 'ci');
  t.equal(activatorOf(run, at('2026-11-20T02:00:00.000Z')), null, 'not if a later rollback did');
  t.equal(activatorOf({ ...run, finishedAt: null }, at('2026-11-20T02:00:00.000Z')), 'ci', 'while it runs');
  t.equal(activatorOf(run, { active: null }), null);
  t.equal(activatorOf(null, at('2026-11-20T01:00:05.000Z')), null);
  t.end();
});

t.test('a comparison lists the files with their sizes', (t) => {
  const difference = differenceView({
    ...{ kind: 'compare', same: 4, omitted: 0 },
    added: [{ path: 'a', before: null, after: 10 }],
    changed: [
      { path: 'b', before: 10, after: 20 },
      { path: 'c', before: 10, after: 10 },
    ],
    removed: [{ path: 'd', before: 1024, after: null }],
  });
  t.equal(difference.counts, '1 new, 2 changed, 1 removed, 4 unchanged');
  t.same(
    difference.lines.map(({ word, path, why }) => [word, path, why]),
    [
      ['new', 'a', '10 B'],
      ['changed', 'b', '10 B → 20 B'],
      ['changed', 'c', '10 B, as before'],
      ['removed', 'd', '1 KiB'],
    ],
  );
  t.end();
});

t.test('a comparison with the current release says what the switch would change', (t) => {
  const files = (count: number) => Array.from({ length: count }, () => ({ path: 'a', before: 1, after: 2 }));
  const about = (changed: number, added: number, removed: number, more: object = {}) => ({
    ...{ kind: 'compare' as const, same: 1, omitted: 0 },
    ...{ changed: files(changed), added: files(added), removed: files(removed) },
    ...more,
  });
  t.equal(effectText(about(2, 0, 0), 'rollback'), 'A rollback would change 2 files. 1 file stays the same.');
  t.equal(
    effectText(about(1, 2, 3, { same: 0 }), 'promote'),
    'A promotion would change 1 file, add 2 files and remove 3 files.',
  );
  t.equal(
    effectText(about(0, 0, 0, { same: 9 }), 'rollback'),
    'A rollback would change nothing. 9 files stay the same.',
  );
  t.equal(effectText(about(1, 0, 0, { omitted: 5 }), 'rollback'), null);
  t.end();
});
