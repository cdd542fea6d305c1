import t from 'tap';
import type { CatalogState, LegacyRecord } from '../../../../src/core/catalog/catalog.ts';
import { type Amount, parseAmount } from '../../../../src/core/lib/settings/sizes-and-durations.ts';
import { plannedRemovals, refuseRemovals } from '../../../../src/core/publish/decision/refusals.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  publishTo,
  put,
  snapshot,
  testClock,
} from '../../../faults/world.ts';
import { catalog, intent, output, planOf, record } from '../../../support/decisions.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

const tenFiles = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`${index}.txt`, `${index}`]));
const of = (count: number): Record<string, string> =>
  Object.fromEntries(Object.entries(tenFiles).slice(0, count));

t.test('a limit is a number or a percentage of the published files, rounded down', async (t) => {
  const cases: [limit: string | number, removed: number, total: number, refused: boolean][] = [
    [2, 2, 10, false],
    ['2', 3, 10, true],
    [0, 1, 10, true],
    [0, 0, 10, false],
    ['20%', 2, 10, false],
    ['20%', 3, 10, true],
    ['20%', 1, 9, false],
    ['20%', 2, 9, true],
    ['20%', 1, 4, true],
    ['0%', 1, 100, true],
    ['100%', 7, 7, false],
  ];
  for (const [limit, removed, total, refused] of cases) {
    const amount = parseAmount(limit) as Amount;
    const check = (): void => refuseRemovals(amount, { removed, total, where: '"x"' });
    const what = `${limit}: ${removed} of ${total}`;
    if (refused) t.throws(check, { code: 'too_many_removals', message: `"x": ${removed} of ${total}` }, what);
    else t.doesNotThrow(check, what);
  }
  t.doesNotThrow(() => refuseRemovals(null, { removed: 9, total: 9, where: '' }));
  t.throws(() => refuseRemovals({ percent: 20 }, { removed: 3, total: 9, where: '"x"' }), {
    message: /allows 20%, which is 1; nothing was changed$/,
    hint: /--allow-removals/,
  });
  t.throws(() => refuseRemovals({ count: 2 }, { removed: 3, total: 9, where: '"x"' }), {
    message: /allows 2; nothing was changed$/,
  });
  for (const wrong of ['', '101%', '-1', '1.5', '20 %', '%', 'x', -1, 1.5])
    t.equal(parseAmount(wrong), undefined);
});

const removing = (...paths: string[]): Parameters<typeof plannedRemovals>[0] => ({
  ...planOf('replace_catalog'),
  removes: paths.map(listedKey),
});

t.test('counts files of the owner that no earlier attempt decided to remove', async (t) => {
  const outputs = [record('a'), record('b'), record('c'), record('theirs', { owner: otherOwner })];
  const plan = removing('a', 'b', 'theirs', 'unknown');
  const removed = (...of: Parameters<typeof catalog>): number =>
    plannedRemovals(plan, catalog(...of)).removed;
  t.same(plannedRemovals(plan, catalog(outputs)), { removed: 2, total: 3, where: '"bundle"' });
  const removes = [listedKey('b')];
  t.equal(removed(outputs, intent({ removes })), 1);
  t.equal(removed(outputs, intent({ removes, action: 'prune' })), 2, 'a prune counts all of its removals');
  t.equal(removed(outputs, intent({ removes, owner: otherOwner })), 2);
  const { removed: cleared, total } = plannedRemovals({ ...plan, clears: true }, catalog(outputs));
  t.same({ cleared, total }, { cleared: 0, total: 3 });
  const atRoot = plannedRemovals({ ...plan, destinationPath: '.' }, catalog(outputs));
  t.equal(atRoot.where, 'the destination root');
});

t.test('in a superseded state, counts the files that name their owner', async (t) => {
  const published = (path: string, by: typeof owner | null): LegacyRecord => {
    const { digest, size, updatedAt } = record(path);
    return { path: output(path).path, v3: by && { owner: by, digest, size, updatedAt } };
  };
  const records = [published('a', owner), published('b', owner), published('theirs', otherOwner)];
  const of = (state: CatalogState): object => plannedRemovals(removing('a', 'theirs', 'unowned'), state);
  t.same(of({ kind: 'legacy', version: 3, records: [...records, published('unowned', null)] }), {
    ...{ removed: 1, total: 2, where: '"bundle"' },
  });
  t.same(of({ kind: 'absent' }), { removed: 0, total: 0, where: '"bundle"' });
});

interface Replacement {
  files: Record<string, string>;
  limit: string | number;
  dryRun?: boolean;
  force?: boolean;
  allowRemovals?: boolean;
}

function replace(root: Storage, { files, limit, ...request }: Replacement): Promise<ActionResult> {
  const destination = {
    ...destinationOf('replacement'),
    limits: { maxRemoved: parseAmount(limit) as Amount },
  };
  const publication = { bundle: bundleOf(files), owner, destination, destinationPath: bundlePath };
  return publishBundle(contextWith(testClock()), root, publication, {
    dryRun: false,
    force: false,
    ...request,
  });
}

for (const flavour of ['files', 'objects'] as const)
  t.test(`${flavour}: rejects a replacement that removes more than its limit before any write`, async (t) => {
    const root = memoryStorage({ flavour });
    await publishTo(root, { files: { ...tenFiles } });
    await publishTo(root, { files: { 'theirs.txt': 't' }, as: otherOwner });
    const before = await snapshot(root);
    for (const dryRun of [true, false]) {
      const refused = await replace(root, { files: of(7), limit: '20%', dryRun });
      t.match(refused, {
        action: 'error',
        error: { code: 'too_many_removals', message: /"bundle": 3 of 10 published outputs/ },
      });
      t.same(await snapshot(root), before, 'nothing is written, not even a lease');
    }
    const foreseen = await replace(root, { files: of(7), limit: 2, dryRun: true, allowRemovals: true });
    t.equal(foreseen.changes.filter(({ fate }) => fate === 'remove').length, 3);
    t.match(await replace(root, { files: of(8), limit: '20%' }), {
      action: 'replace_catalog',
      error: null,
    });
    t.match(await replace(root, { files: of(1), limit: 0, allowRemovals: true }), { outputsRemoved: 7 });
    t.ok((await snapshot(root)).has('bundle/theirs.txt'));
  });

t.test('does not count removals of an interrupted attempt again', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishTo(root, { files: tenFiles });
  let removals = 0;
  const dying: Storage = {
    ...root,
    async remove() {
      removals += 1;
      throw new Error('the power went');
    },
    removeTree: async () => Promise.reject(new Error('the power went')),
    write: (key, body, options) =>
      removals > 0 ? Promise.reject(new Error('the power went')) : root.write(key, body, options),
  };
  t.match(await replace(dying, { files: of(5), limit: 0, allowRemovals: true }), { action: 'error' });
  t.ok(removals > 0);
  t.match(await replace(root, { files: of(5), limit: 0 }), { action: 'replace_catalog', error: null });
  t.equal((await snapshot(root)).size, 6);
  t.match(await replace(root, { files: of(4), limit: 0 }), { error: { code: 'too_many_removals' } });
});

t.test('force removes everything, and ignores the limit', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await put(root, 'bundle/theirs.txt', 'x');
  await put(root, 'bundle/theirs-too.txt', 'x');
  t.match(await replace(root, { files: of(1), limit: 0, force: true }), {
    action: 'force_replace',
    error: null,
  });
});
