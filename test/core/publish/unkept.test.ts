import t from 'tap';
import { finding } from '../../../src/core/lib/errors.ts';
import { publishToDestination } from '../../../src/core/publish/publish-to-destination.ts';
import type { DestinationResult } from '../../../src/core/publish/results/result.ts';
import { selectLoaded } from '../../../src/core/publish/select-bundles.ts';
import { bundleOf, contextWith, destinationOf, type Files, owner, testClock } from '../../faults/world.ts';
import { type MemoryDisk, memoryStorage } from '../../support/memory-storage.ts';

/** Files that are too large to keep a copy while they are replaced, such as S3 objects of more than 5 GiB. */

const disk: MemoryDisk = new Map();

async function publish(files: Files, dryRun = false): Promise<DestinationResult> {
  const openStorage = async (): Promise<ReturnType<typeof memoryStorage>> =>
    memoryStorage({ disk, flavour: 'objects', maxBackupBytes: 10 });
  const context = { ...contextWith(testClock()), openStorage };
  const select = selectLoaded([bundleOf(files)]);
  return publishToDestination(context, owner, destinationOf('replacement'), select, { dryRun, force: false });
}

t.test('the plan and a warning name files that cannot be restored, also in a dry run', async (t) => {
  const large = (text: string): string => text.repeat(11);
  const first = { changed: large('a'), gone: large('b'), same: large('c'), small: 'd' };
  t.match(await publish(first), {
    status: 'ok',
    warnings: { length: 0 },
    actions: [{ unkept: { length: 0 } }],
  });
  const next = { changed: large('A'), same: large('c'), small: 'D', new: large('n') };
  for (const dryRun of [true, false])
    t.match(await publish(next, dryRun), {
      status: 'ok',
      actions: [{ unkept: ['changed', 'gone'] }],
      warnings: [
        {
          code: 'cannot_be_undone',
          message:
            'target=bundle: "changed" and 1 more are too large to be restored if the publication fails midway; the next run would finish it',
        },
      ],
    });
  t.match(await publish(next), {
    warnings: { length: 0 },
    actions: [{ action: 'skip_same', unkept: { length: 0 } }],
  });
});

t.test('names a single file, with its path in JSON', async (t) => {
  await publish({ alone: 'a'.repeat(11), small: 's' });
  const { warnings } = await publish({ alone: 'b'.repeat(11), small: 's' });
  t.same(warnings, [
    finding(
      'warning',
      'cannot_be_undone',
      'target=bundle: "alone" is too large to be restored if the publication fails midway; the next run would finish it',
      { file: 'alone' },
    ),
  ]);
});
