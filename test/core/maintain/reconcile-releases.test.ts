import t from 'tap';
import { reconcile } from '../../../src/core/maintain/reconcile.ts';
import { listedKey } from '../../../src/core/storage/key.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { publishAsRelease } from '../../faults/release-world.ts';
import { contextWith, owner, publishTo, put, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

/** Pointers are next to the managed files and are not content. */

const preview = { name: 'preview', ttlMs: 3_600_000 };

async function unmanaged(root: Storage): Promise<readonly string[]> {
  const options = { owner, dryRun: true, allOwners: false };
  const reports = await reconcile(contextWith(testClock()), root, options);
  return reports.find(({ destinationPath }) => destinationPath === '.')?.unmanaged ?? [];
}

for (const flavour of ['files', 'objects'] as const)
  t.test(`${flavour}: finds the releases of a bundle path, and no others`, async (t) => {
    const root = memoryStorage({ flavour });
    await publishAsRelease(root, 0);
    await publishAsRelease(root, 1, { channel: preview });
    t.same(await unmanaged(root), []);
    // Without releases next to it, with another name, or in a subdirectory.
    const strays = ['preview', 'current', 'site/beta', 'site/notes/preview', 'elsewhere/preview'];
    for (const name of strays) await put(root, name, 'mine');
    await publishTo(root, { files: { 'a.txt': 'a' } });
    t.same(await unmanaged(root), strays.sort());
  });

t.test('with an invalid ledger, the current pointer is known but no channel', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  await publishAsRelease(root, 0);
  await publishAsRelease(root, 1, { channel: preview });
  await put(root, 'site/.publisher.releases.json', '{');
  t.same(await unmanaged(root), ['site/preview']);
});

t.test('reads a ledger only if there are unknown files next to the releases', async (t) => {
  const inner = memoryStorage({ flavour: 'objects' });
  await publishAsRelease(inner, 0);
  await inner.remove(listedKey('site/current.json'));
  await put(inner, 'stray.txt', 'mine');
  const read: string[] = [];
  const root: Storage = {
    ...inner,
    stat(key) {
      read.push(key);
      return inner.stat(key);
    },
  };
  t.same(await unmanaged(root), ['stray.txt']);
  t.same(
    read.filter((key) => key.endsWith('current.json')),
    [],
  );
});
