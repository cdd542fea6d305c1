import t from 'tap';
import type { CatalogState } from '../../../../src/core/catalog/catalog.ts';
import type { RelativePath } from '../../../../src/core/lib/paths.ts';
import { decide } from '../../../../src/core/publish/decision/decide.ts';
import type { DecisionInput, Observation, Plan } from '../../../../src/core/publish/plan.ts';
import { otherOwner, owner } from '../../../faults/world.ts';
import { bundle, catalog, intent, output, record, unseen } from '../../../support/decisions.ts';

/* Cases that the golden file of the decision table does not cover. */

function decided(
  state: CatalogState,
  planned: DecisionInput['planned'],
  more: Partial<Pick<DecisionInput, 'workflow'>> & { observed?: Partial<Observation> } = {},
): Plan {
  const { workflow = 'additive', observed = {} } = more;
  return decide({
    ...{ owner, bundle, workflow, force: false, destinationPath: 'bundle', planned },
    observed: { ...unseen, ...observed, state },
  });
}

const isEmpty = { writes: [], kept: [], removes: [], clears: false, unkept: [], untouched: [], changes: [] };

t.test('a decision without changes has no work', async (t) => {
  for (const [action, state] of [
    ['skip_same', catalog([record('a')])],
    ['fail_conflict', { kind: 'invalid', reason: 'x' }],
    ['fail_unmanaged', catalog([record('a', { owner: otherOwner })])],
  ] as const) {
    const { reason, ...plan } = decided(state, [output('a')]);
    t.ok(reason.message.length > 0);
    t.strictSame(plan, { owner, bundle, destinationPath: 'bundle', action, ...isEmpty });
  }
});

t.test('an addition without outputs removes nothing, and counts as unchanged', async (t) => {
  t.equal(decided(catalog([record('a')]), []).action, 'skip_same');
});

t.test('the reason for a removal counts the removed outputs', async (t) => {
  for (const [omitted, message] of [
    [['b'], '1 recorded output is no longer planned'],
    [['b', 'c'], '2 recorded outputs are no longer planned'],
  ] as const) {
    const state = catalog(['a', ...omitted].map((path) => record(path)));
    const { reason } = decided(state, [output('a')], { workflow: 'replacement' });
    t.same(reason, { code: 'outputs_omitted', message });
  }
});

t.test('reports recorded files above the size limit if they are replaced or removed', async (t) => {
  const state = catalog([
    ...['gone', 'changed', 'same'].map((path) => record(path, { size: 11 })),
    record('small', { size: 10 }),
  ]);
  const planned = [
    ...[output('changed', { size: 12 }), output('new', { size: 12 })],
    ...[output('same', { size: 11 }), output('small', { size: 12 })],
  ];
  const unkept = (maxBackupBytes: number | null): string[] =>
    decided(state, planned, { workflow: 'replacement', observed: { maxBackupBytes } }).unkept;
  t.same(unkept(10), ['gone', 'changed']);
  t.same(unkept(11), []);
  t.same(unkept(null), []);
});

t.test('a superseded state manages all files at planned paths', async (t) => {
  const state: CatalogState = { kind: 'legacy', version: 1, records: [] };
  const observed = { unrecorded: ['a' as RelativePath] };
  t.match(decided(state, [output('a')], { observed }), { action: 'upsert_additive' });
  t.match(decided(catalog([]), [output('a')], { observed }), { reason: { code: 'path_unrecorded' } });
});

t.test(
  'an output announced by an unfinished attempt can block a path even if all outputs are recorded',
  async (t) => {
    const announced = { outputs: [record('a', { owner: otherOwner })] };
    const state = catalog([record('a/b')], intent({ owner: otherOwner, ...announced }));
    t.match(decided(state, [output('a/b')]), { reason: { code: 'path_blocked' } });
  },
);
