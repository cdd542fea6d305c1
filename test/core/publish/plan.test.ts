import t from 'tap';
import { type Action, changesDestination, concernedPaths } from '../../../src/core/publish/plan.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import { output, planOf, record } from '../../support/decisions.ts';

t.test('a plan concerns paths that it writes, keeps or removes, and not untouched ones', async (t) => {
  const plan = {
    ...planOf('replace_catalog'),
    writes: [output('written')],
    kept: [output('kept')],
    removes: [listedKey('removed')],
    untouched: [record('untouched')],
  };
  t.same([...concernedPaths(plan)].sort(), ['kept', 'removed', 'written']);
});

t.test('only refusals and skip_same leave a destination unchanged', async (t) => {
  const actions: Record<Action, boolean> = {
    ...{ publish_new: true, upsert_additive: true, replace_catalog: true, force_replace: true },
    ...{ skip_same: false, fail_unmanaged: false, fail_conflict: false },
  };
  for (const [action, changes] of Object.entries(actions))
    t.equal(changesDestination(action as Action), changes, action);
});
