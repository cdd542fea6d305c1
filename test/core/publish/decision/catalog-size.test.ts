import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import { bundleOf, bundlePath, contextWith, destinationOf, owner, publishTo } from '../../../faults/world.ts';
import { type MemoryDisk, memoryStorage } from '../../../support/memory-storage.ts';

/** Each output has an address of two megabytes, for the largest catalog with the fewest files. */
const publicBaseUrl = `https://example.org/${'a'.repeat(2 ** 21)}/`;

function filesOf(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`f${index}`, 'x']));
}

for (const dryRun of [true, false])
  t.test(`rejects a catalog that could not be read again before any write, dry run: ${dryRun}`, async (t) => {
    const disk: MemoryDisk = new Map();
    const root = memoryStorage({ disk, flavour: 'files' });
    await publishTo(root, { files: { old: 'old' } });
    const before = new Map(disk);
    const result = await publishBundle(
      contextWith(systemClock),
      root,
      {
        bundle: bundleOf(filesOf(257)),
        owner,
        destination: { ...destinationOf('additive'), publicBaseUrl },
        destinationPath: bundlePath,
      },
      { dryRun, force: false },
    );
    t.match(result, {
      action: 'error',
      error: {
        code: 'catalog_too_large',
        message: /at least 515 MiB, more than the maximum of 512 MiB/,
        hint: /split the bundle/,
      },
    });
    t.same(disk, before, 'byte for byte as before');
  });

t.test('writes a catalog of exactly the maximum size, and reads it again', async (t) => {
  const root = memoryStorage({ flavour: 'files' });
  const destination = { ...destinationOf('additive'), publicBaseUrl };
  const publication = { bundle: bundleOf(filesOf(50)), owner, destination, destinationPath: bundlePath };
  const request = { dryRun: false, force: false };
  t.match(await publishBundle(contextWith(systemClock), root, publication, request), { error: null });
  t.match(await publishBundle(contextWith(systemClock), root, publication, request), { action: 'skip_same' });
});
