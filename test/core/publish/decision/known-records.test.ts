import t from 'tap';
import type { CatalogState, LegacyRecord } from '../../../../src/core/catalog/catalog.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { decide } from '../../../../src/core/publish/decision/decide.ts';
import { knownRecords, omittedPaths } from '../../../../src/core/publish/decision/records.ts';
import type { DecisionInput } from '../../../../src/core/publish/plan.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { otherOwner, owner } from '../../../faults/world.ts';
import { bundle, catalog, intent, output, record, unseen } from '../../../support/decisions.ts';

function inputOf(state: CatalogState, paths: string[], workflow: DecisionInput['workflow']): DecisionInput {
  return {
    ...{ owner, bundle, workflow, force: false, destinationPath: 'd/bundle' },
    ...{ planned: paths.map((path) => output(path)), observed: { ...unseen, state } },
  };
}

function legacy(path: string, by: typeof owner | null): LegacyRecord {
  const v3 = by && { owner: by, digest: digestOf(path), size: 3, updatedAt: '2026-01-01T00:00:00Z' };
  return { path: path as RelativePath, v3 };
}

t.test('leaves files that another owner was about to remove', async (t) => {
  const removes = [listedKey('theirs')];
  const pending = intent({ owner: otherOwner, action: 'replace_catalog', removes });
  const state = catalog([record('b'), record('a'), record('kept')], pending);
  const input = inputOf(state, ['kept'], 'replacement');
  const known = knownRecords(state, input);
  t.same(known.unfinished, []);
  t.same([...known.holders], [['theirs', null], ...['b', 'a', 'kept'].map((path) => [path, owner])]);
  t.same(omittedPaths(input, known), ['a', 'b']);
  const blocked = decide(inputOf(state, ['theirs/below'], 'replacement'));
  t.match(blocked, { action: 'fail_unmanaged', reason: { code: 'path_blocked' } });
  t.match(decide(inputOf(state, ['theirs'], 'additive')), { action: 'upsert_additive' });
});

t.test(
  'removes files that the same owner was about to remove, unless they are planned again or pruned',
  async (t) => {
    const removes = ['z', 'y', 'again'].map(listedKey);
    for (const [action, isRemoved] of [
      ['replace_catalog', ['y', 'z']],
      ['force_replace', ['y', 'z']],
      ['prune', []],
    ] as const) {
      const state = catalog([], intent({ action, removes }));
      const input = inputOf(state, ['again'], 'additive');
      const known = knownRecords(state, input);
      t.same(omittedPaths(input, known), isRemoved, action);
      t.same(known.holders.get('z'), owner);
    }
  },
);

t.test('converts records of version 3 for their owner only', async (t) => {
  const records = [legacy('mine', owner), legacy('theirs', otherOwner), legacy('unknown', null)];
  const plan = decide(inputOf({ kind: 'legacy', version: 3, records }, ['new'], 'additive'));
  t.equal(plan.action, 'upsert_additive');
  t.strictSame(plan.untouched, [
    {
      path: 'mine',
      owner,
      source: { backend: 'local', id: 'legacy', path: 'd/bundle' },
      kind: 'file',
      digest: digestOf('mine'),
      size: 3,
      updatedAt: '2026-01-01T00:00:00Z',
      generated: { contentType: null, cacheControl: null, generator: null },
      url: null,
    },
  ]);
});
