import t from 'tap';
import type { OutputRecord } from '../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import { type PruneCandidate, selectPrunable } from '../../../src/core/maintain/select-prunable.ts';
import { otherOwner, owner } from '../../faults/world.ts';

const now = new Date('2026-11-20T00:00:10Z');

function candidate(path: string, second: number, as = owner, destinationPath = '.'): PruneCandidate {
  const record: OutputRecord = {
    path: path as RelativePath,
    owner: as,
    source: { backend: 'local', id: '/s', path: '.' },
    kind: 'file',
    digest: digestOf(path),
    size: 1,
    updatedAt: `2026-11-20T00:00:0${second}Z`,
    generated: { contentType: null, cacheControl: null, generator: null },
    url: null,
  };
  return { destinationPath, record };
}

const candidates = [
  candidate('a', 1),
  candidate('c', 3, owner, 'x'),
  candidate('b', 3),
  candidate('d', 5),
  candidate('theirs', 0, otherOwner),
];
const pruned = (keepLatest: number | null, olderThanMs: number | null): string[] =>
  selectPrunable(candidates, owner, { enabled: true, keepLatest, olderThanMs }, now)
    .filter(({ prune }) => prune)
    .map(({ record }) => record.path);

t.test('decides on each output of the owner, newest first, and by path for equal times', async (t) => {
  const decisions = selectPrunable(
    candidates,
    owner,
    { enabled: true, keepLatest: 2, olderThanMs: null },
    now,
  );
  t.same(
    decisions.map(({ record, prune, reason }) => [record.path, prune, reason]),
    [
      ['d', false, 'among the newest 2'],
      ['b', false, 'among the newest 2'],
      ['c', true, 'not among the newest 2'],
      ['a', true, 'not among the newest 2'],
    ],
  );
});

t.test('exceeds an age limit only if older, and requires both limits to be exceeded', async (t) => {
  t.same(pruned(null, 7_000), ['a']);
  t.same(pruned(null, 6_999), ['b', 'c', 'a']);
  t.same(pruned(2, 6_999), ['c', 'a']);
  t.same(pruned(0, null), ['d', 'b', 'c', 'a']);
});

t.test('a policy without a bound prunes nothing', async (t) => {
  t.same(pruned(null, null), []);
});

t.test('each decision names its output and bundle path', async (t) => {
  const of = candidate('a', 1, owner, 'x');
  const decided = (keepLatest: number | null, olderThanMs: number | null): unknown =>
    selectPrunable([of], owner, { enabled: true, keepLatest, olderThanMs }, now);
  t.same(decided(1, null), [{ ...of, prune: false, reason: 'among the newest 1' }]);
  t.same(decided(null, 60_000), [{ ...of, prune: false, reason: 'not old enough' }]);
  t.same(decided(null, null), [{ ...of, prune: false, reason: 'the policy sets no bound' }]);
  t.same(decided(0, 1), [
    { ...of, prune: true, reason: 'not among the newest 0 and older than the policy allows' },
  ]);
});
