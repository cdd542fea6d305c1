import t from 'tap';
import type { Catalog, OutputRecord, Pending } from '../../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { isFromSource } from '../../../../src/core/publish/orphans.ts';
import { unpublication } from '../../../../src/core/publish/unpublish/unpublication.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { otherOwner, owner } from '../../../faults/world.ts';

/** Removals when a bundle path is unpublished, and the criteria for an orphan, computed on values. */

const third: Owner = { pipelineId: 'third', destinationId: 'web' };

function record(path: string, of: Owner = owner, from: Partial<OutputRecord['source']> = {}): OutputRecord {
  return {
    path: path as RelativePath,
    owner: of,
    source: { backend: 'local', id: '/source', path: 'bundle', ...from },
    ...{ kind: 'file', digest: digestOf(path), size: 1, updatedAt: '2026-11-20T00:00:00.000Z', url: null },
    generated: { contentType: null, cacheControl: null, generator: null },
  };
}

function pendingOf(
  of: Owner,
  action: Pending['action'],
  outputs: OutputRecord[],
  removes: string[],
): Pending {
  return {
    ...{ attemptId: 'x', owner: of, action, startedAt: '2026-11-20T00:00:00.000Z', holder: null },
    ...{ renewals: 0, outputs, removes: removes.map((key) => listedKey(key)) },
  };
}

function catalogOf(outputs: OutputRecord[], pending: Pending | null = null): Catalog {
  return { generation: 1, updatedAt: '2026-11-20T00:00:00.000Z', bundles: [], outputs, pending };
}

const both = [record('b'), record('a'), record('theirs', otherOwner)];

t.test('removes the outputs of the owner, sorted; others stay and name their owner', (t) => {
  t.match(unpublication(catalogOf(both), owner, 'bundle'), {
    ...{ owner, destinationPath: 'bundle', action: 'unpublish', bundle: null, clears: false },
    ...{ removes: ['a', 'b'], writes: { length: 0 }, kept: { length: 0 }, staying: [otherOwner] },
    records: [{ path: 'b' }, { path: 'a' }],
    untouched: [{ path: 'theirs' }],
  });
  const twice = catalogOf([...both, record('more', otherOwner), record('last', third)]);
  t.same(unpublication(twice, owner, 'bundle').staying, [otherOwner, third], 'each once');
  t.end();
});

t.test("removes the announced files of an interrupted attempt along with its owner's outputs", (t) => {
  const wrote = [record('new'), record('new theirs', otherOwner)];
  const cases: [string, Pending, string[], Owner[]][] = [
    ['ours', pendingOf(owner, 'replace_catalog', wrote, ['left']), ['a', 'b', 'left', 'new'], [otherOwner]],
    [
      'our pruning, whose records still stand',
      pendingOf(owner, 'prune', [], ['left']),
      ['a', 'b'],
      [otherOwner],
    ],
    ['another’s', pendingOf(third, 'replace_catalog', wrote, ['left']), ['a', 'b', 'new'], [otherOwner]],
  ];
  for (const [owners, pending, removes, staying] of cases) {
    const work = unpublication(catalogOf(both, pending), owner, 'bundle');
    t.same([work.removes, work.staying], [removes, staying], owners);
  }
  const ours = pendingOf(owner, 'replace_catalog', [record('new')], []);
  t.same(unpublication(catalogOf([record('a')], ours), owner, 'bundle').staying, [], 'no owner remains');
  const theirs = pendingOf(otherOwner, 'publish_new', [record('new', otherOwner)], []);
  t.same(unpublication(catalogOf([record('a')], theirs), owner, 'bundle').staying, [otherOwner]);
  t.throws(
    () => unpublication(catalogOf([], pendingOf(third, 'publish_new', [], [])), owner, '.'),
    { code: 'not_owned', message: /third\/web/ },
    'the current holder',
  );
  t.end();
});

t.test('if the owner has no outputs, the refusal names the owner and the path', (t) => {
  const catalog = catalogOf([record('theirs', otherOwner)]);
  const hint = /--pipeline other --destination web$/;
  t.throws(() => unpublication(catalog, owner, 'a/b'), {
    code: 'not_owned',
    message: '"a/b" was published by other/web; nothing was removed',
    hint,
  });
  t.throws(() => unpublication(catalog, owner, '.'), {
    message: /^the destination root was published by/,
    hint,
  });
  t.same(unpublication(catalogOf([]), owner, '.').removes, [], 'a catalog without an output has no owner');
  t.end();
});

t.test('an orphan has only outputs, including announced ones, from its own path of this source', (t) => {
  const from = { owner, source: { backend: 'local', id: '/source' } } as const;
  const is = (outputs: OutputRecord[], announced: OutputRecord[] = []): boolean =>
    isFromSource(catalogOf(outputs, pendingOf(owner, 'publish_new', announced, [])), from, 'bundle');
  t.ok(is([record('a'), record('b')]));
  t.ok(is([record('a'), record('b', otherOwner, { id: '/elsewhere' })]), 'others do not count');
  t.ok(is([], [record('a')]), 'only announced');
  t.notOk(is([]), 'no outputs of this owner');
  t.notOk(is([record('b', otherOwner)]));
  for (const elsewhere of [{ backend: 's3' }, { id: '/elsewhere' }, { path: 'other' }] as const) {
    t.notOk(is([record('a'), record('b', owner, elsewhere)]), JSON.stringify(elsewhere));
    t.notOk(is([record('a')], [record('b', owner, elsewhere)]), JSON.stringify(elsewhere));
  }
  t.ok(isFromSource(catalogOf([record('a')]), from, 'bundle'), 'without an attempt');
  t.end();
});
