import t from 'tap';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { subdirectory } from '../../../src/core/storage/wrappers/subdirectory.ts';
import { bundlePath, contextWith, owner, publishTo, put, snapshot, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

const context = contextWith(testClock());

/** Several bundles next to each other, as with `preserve_relative`. */
async function destination(flavour: 'files' | 'objects', bundles: number): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (let count = 1; count <= bundles; count += 1) {
    const files = { 'a.txt': 'a', 'deep/er/b.txt': 'b', 'deep/c.txt': 'c' };
    await publishTo(subdirectory(root, listedKey(`session-${count}`)), { files });
  }
  return root;
}

for (const flavour of ['files', 'objects'] as const) {
  t.test(`${flavour}: files outside of the managed bundle paths are reported for the root`, async (t) => {
    const root = await destination(flavour, 2);
    await put(root, 'z-stray', 's');
    await put(root, 'session-1/beside/stray', 's');
    await put(root, '.publisher.tmp/old', 's');
    await put(root, `session-2/${bundlePath}/within`, 's');
    const before = await snapshot(root);
    const reports = await reconcile(context, root, { owner, dryRun: true, allOwners: false });
    t.same(
      reports.map(({ destinationPath, unmanaged }) => [destinationPath, unmanaged]),
      [
        ['.', ['session-1/beside/stray', 'z-stray']],
        [`session-1/${bundlePath}`, []],
        [`session-2/${bundlePath}`, ['within']],
      ],
    );
    t.same(reports[0]?.missing, []);
    await reconcile(context, root, { owner, dryRun: false, allOwners: true });
    t.same(await snapshot(root), before, 'nothing is changed');
  });

  t.test(
    `${flavour}: a managed root is reported once, without the files of managed paths below it`,
    async (t) => {
      const root = await destination(flavour, 1);
      await put(
        root,
        '.publisher.json',
        (await snapshot(root)).get(`session-1/${bundlePath}/.publisher.json`) ?? '',
      );
      await put(root, 'stray', 's');
      const [first, second, ...more] = await reconcile(context, root, {
        owner,
        dryRun: true,
        allOwners: false,
      });
      t.match(first, { destinationPath: '.', unmanaged: ['stray'] });
      t.equal(first?.missing.length, 3);
      t.match(second, {
        destinationPath: `session-1/${bundlePath}`,
        missing: { length: 0 },
        unmanaged: { length: 0 },
      });
      t.same(more, []);
    },
  );
}

t.test('one listing covers a whole destination, however many bundles it has', async (t) => {
  const root = await destination('objects', 20);
  let listings = 0;
  const counted: Storage = {
    ...root,
    list(directory, how) {
      listings += 1;
      return root.list(directory, how);
    },
  };
  t.equal((await reconcile(context, counted, { owner, dryRun: true, allOwners: false })).length, 20);
  t.equal(listings, 1);
  await root.remove(listedKey(`session-7/${bundlePath}/a.txt`));
  const reports = await reconcile(context, counted, { owner, dryRun: false, allOwners: false });
  t.equal(reports.filter(({ missing }) => missing.length === 1).length, 1);
  t.equal(listings, 3, 'again, and the repaired path once more under its lease');
});
