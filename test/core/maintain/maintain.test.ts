import t from 'tap';
import { managedPaths, reportedPath, requireManagedPaths } from '../../../src/core/maintain/managed-paths.ts';
import { prune } from '../../../src/core/maintain/prune.ts';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { requireCatalog } from '../../../src/core/maintain/require-catalog.ts';
import { verify } from '../../../src/core/maintain/verify.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import {
  contextWith,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  stateOf,
  testClock,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const context = contextWith(testClock());
const policy = { enabled: true, keepLatest: 1, olderThanMs: null };

async function published(): Promise<Storage> {
  const storage = memoryStorage({ flavour: 'files' });
  await publishTo(storage, { files: { 'a.txt': 'a', 'b.txt': 'b' } });
  await publishTo(storage, { files: { 'theirs.txt': 't' }, as: otherOwner });
  return storage;
}

async function recorded(storage: Storage): Promise<string[]> {
  const state = await stateOf(storage);
  return state.kind === 'valid' ? state.catalog.outputs.map(({ path }) => path) : [];
}

t.test(
  'managed paths: every directory with a state, parents first; none is an error if required',
  async (t) => {
    const storage = memoryStorage({ flavour: 'files' });
    await t.rejects(requireManagedPaths(storage), { code: 'bundle_not_found' });
    for (const place of ['x/y/', 'x/', '', '.publisher.tmp/z/'])
      await put(storage, `${place}.publisher.json`, '{}');
    t.same(await managedPaths(storage), ['', 'x', 'x/y']);
    t.same((await requireManagedPaths(storage)).map(reportedPath), ['.', 'x', 'x/y']);
  },
);

t.test('only a valid state has a catalog; the others say what to do', async (t) => {
  const refused = { code: 'state_conflict' };
  t.throws(() => requireCatalog({ kind: 'absent' }), refused);
  t.throws(() => requireCatalog({ kind: 'legacy', version: 2, records: [] }), {
    ...refused,
    hint: /publish once/,
  });
  t.throws(() => requireCatalog({ kind: 'future', version: 5 }), { ...refused, hint: /newer waybill/ });
  t.throws(() => requireCatalog({ kind: 'invalid', reason: 'x' }), { ...refused, message: /invalid: x/ });
});

t.test('prune removes, records and notifies what it decided, of its own owner only', async (t) => {
  const storage = await published();
  const occurrences: Occurrence[] = [];
  const notify = (occurrence: Occurrence): void => void occurrences.push(occurrence);
  const planned = await prune({ ...context, notify }, storage, { owner, policy, dryRun: true });
  t.same(
    planned.decisions.map(({ record, prune: goes }) => [record.path, goes]),
    [
      ['a.txt', false],
      ['b.txt', true],
    ],
  );
  t.same([planned.removed, occurrences], [[], []]);
  const report = await prune({ ...context, notify }, storage, { owner, policy, dryRun: false });
  t.same(report.removed, [{ destinationPath: 'bundle', path: 'b.txt' }]);
  t.same(report.errors, []);
  t.equal(occurrences.length, 1);
  t.same(await recorded(storage), ['a.txt', 'theirs.txt']);
  t.notOk((await snapshot(storage)).has('bundle/b.txt'));
});

t.test('a deletion that failed stays recorded; one whose answer was lost does not', async (t) => {
  for (const [isApplied, left] of [
    [false, ['a.txt', 'b.txt', 'theirs.txt']],
    [true, ['a.txt', 'theirs.txt']],
  ] as const) {
    const inner = await published();
    const failing: Storage = {
      ...inner,
      async remove(key) {
        if (!key.endsWith('b.txt')) return inner.remove(key);
        if (isApplied) await inner.remove(key);
        throw new Error('no answer');
      },
    };
    const { errors } = await prune(context, failing, { owner, policy, dryRun: false });
    t.match(errors, [{ destinationPath: 'bundle', error: { message: 'no answer' } }]);
    t.same(await recorded(inner), left);
  }
});

t.test('pruning that is not enabled is refused', async (t) => {
  const refused = prune(context, await published(), {
    owner,
    policy: { ...policy, enabled: false },
    dryRun: false,
  });
  await t.rejects(refused, { code: 'prune_disabled' });
});

t.test('reconcile removes the records of missing outputs of its owner, and reports strays', async (t) => {
  const storage = await published();
  await storage.remove(listedKey('bundle/a.txt'));
  await storage.remove(listedKey('bundle/theirs.txt'));
  await put(storage, 'bundle/stray.txt', 's');
  const [dry] = await reconcile(context, storage, { owner, dryRun: true, allOwners: false });
  t.match(dry, {
    destinationPath: 'bundle',
    missing: [
      { path: 'a.txt', owner, repaired: true },
      { path: 'theirs.txt', owner: otherOwner, repaired: false },
    ],
    unmanaged: ['stray.txt'],
    error: null,
  });
  t.same(await recorded(storage), ['a.txt', 'b.txt', 'theirs.txt']);
  await reconcile(context, storage, { owner, dryRun: false, allOwners: false });
  t.same(await recorded(storage), ['b.txt', 'theirs.txt']);
  await reconcile(context, storage, { owner, dryRun: false, allOwners: true });
  t.same(await recorded(storage), ['b.txt']);
  t.ok((await snapshot(storage)).has('bundle/stray.txt'));
});

t.test('verify reads every output and names what is missing or different', async (t) => {
  const storage = await published();
  await storage.remove(listedKey('bundle/a.txt'));
  await put(storage, 'bundle/b.txt', 'B');
  await put(storage, 'bundle/theirs.txt', 'longer');
  const [report] = await verify(storage, { concurrency: 2 });
  t.match(report, { destinationPath: 'bundle', verified: 3, bytes: 7, interrupted: false, error: null });
  t.same(
    report?.differing.map(({ path, problem }) => [path, problem]),
    [
      ['a.txt', 'missing'],
      ['b.txt', 'digest'],
      ['theirs.txt', 'size'],
    ],
  );
});
