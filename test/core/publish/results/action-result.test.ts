import t from 'tap';
import { errorRecord, WaybillError } from '../../../../src/core/lib/errors.ts';
import { noAppliedPaths } from '../../../../src/core/publish/apply/apply.ts';
import { failedResult, plannedResult } from '../../../../src/core/publish/results/action-result.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { output, planOf } from '../../../support/decisions.ts';

const planned = [
  output('a', { size: 3, url: 'https://example.org/a' }),
  output('b', { kind: 'map', size: 4 }),
];
const outputs = planned.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url }));
const nothing = {
  ...{ outputsWritten: 0, outputsLinked: 0, outputsKept: 0, outputsRemoved: 0 },
  ...{ bytesWritten: 0, bytesLinked: 0, bytesKept: 0 },
};

t.test('reports the plan, its outputs and the actions in a result', async (t) => {
  const changes = [{ path: 'a', fate: 'add', why: 'not_recorded' } as const];
  const plan = { ...planOf('upsert_additive'), changes, unkept: ['b'] };
  const { action, reason, destinationPath, unkept } = plan;
  const expected = {
    bundle: 'src',
    destinationPath,
    action,
    reason,
    changes,
    unkept,
    outputs,
    release: null,
    channel: null,
    url: null,
  };
  t.same(plannedResult('src', plan, planned, null), { ...expected, ...nothing, error: null });
  const removes = [listedKey('c'), listedKey('d')];
  const resultOf = (written: string[], linked: string[]): unknown =>
    plannedResult('src', { ...plan, removes }, planned, {
      written: new Set(written),
      linked: new Set(linked),
    });
  const counted = { ...expected, ...nothing, outputsRemoved: 2, error: null };
  t.same(resultOf(['a'], ['b']), {
    ...{ ...counted, outputsWritten: 1, bytesWritten: 3, outputsLinked: 1, bytesLinked: 4 },
  });
  t.same(resultOf(['b', 'carried over'], []), {
    ...{ ...counted, outputsWritten: 1, bytesWritten: 4, outputsKept: 1, bytesKept: 3 },
  });
});

t.test('a refusal is an error with the path and the fix', async (t) => {
  const refused = (...[action, code, destinationPath]: Parameters<typeof planOf>): unknown =>
    plannedResult('src', planOf(action, code, destinationPath), planned, null).error;
  t.match(refused('fail_unmanaged', 'content_unmanaged', 's/42'), {
    code: 'unmanaged_content',
    message: '"s/42": because',
    hint: /--force/,
  });
  t.match(refused('fail_conflict', 'state_invalid', '.'), {
    code: 'state_conflict',
    message: 'the destination root: because',
    hint: /--force/,
  });
  t.match(refused('fail_unmanaged', 'content_of_catalog_above'), { hint: /^(?!.*--force)/ });
  for (const action of ['skip_same', 'publish_new', 'force_replace'] as const)
    t.equal(refused(action), null, action);
});

t.test('a failed result has no counts of completed work', async (t) => {
  const error = new WaybillError('storage_full', 'no space');
  t.same(failedResult('src', 'dst', planned, error), {
    ...{ bundle: 'src', destinationPath: 'dst', action: 'error', reason: null, changes: [], unkept: [] },
    ...{ outputs, release: null, channel: null, url: null, ...nothing, error: errorRecord(error) },
  });
});

t.test('counts all outputs as kept if nothing was applied', async (t) => {
  const result = plannedResult('src', planOf('skip_same'), planned, noAppliedPaths);
  t.match(result, { ...nothing, outputsKept: 2, bytesKept: 7 });
});
