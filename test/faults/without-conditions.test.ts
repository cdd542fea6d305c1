import t from 'tap';
import type { Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';
import { type MemoryDisk, memoryStorage } from '../support/memory-storage.ts';
import { catalogMismatches, leftovers, otherOwner, publishTo, snapshot, testClock } from './world.ts';

/**
 * If a server ignores conditions, a read after the write decides between two publishers that acquire the
 * lease at the same moment.
 */

t.test(
  'if two publishers write the state concurrently, one continues and the other follows it',
  async (t) => {
    const disk: MemoryDisk = new Map();
    const both = meeting(2);
    const open = (): Storage => {
      const storage = memoryStorage({ disk, flavour: 'objects', conditionalWrites: 'none' });
      let isFirst = true;
      return delegate(storage, {
        async write(key, body, how) {
          // Both have found no lease. Now both write.
          if (isFirst) await both();
          isFirst = false;
          return storage.write(key, body, how);
        },
      });
    };
    const after = meeting(2);
    const clock = (): ReturnType<typeof testClock> => {
      const clock = testClock();
      let isFirst = true;
      return {
        ...clock,
        async sleep(ms, signal) {
          // Neither pause ends before the other write is complete.
          if (ms === 2_000 && isFirst) await after();
          if (ms === 2_000) isFirst = false;
          await new Promise((resolve) => setImmediate(resolve));
          return clock.sleep(ms, signal);
        },
      };
    };
    const results = await Promise.all([
      publishTo(open(), { files: { 'a.txt': 'a', mine: '1' } }, clock()),
      publishTo(open(), { files: { 'b.txt': 'b', theirs: '2' }, as: otherOwner }, clock()),
    ]);
    const storage = open();
    for (const { error } of results)
      t.ok(
        error === null || ['destination_busy', 'lease_lost'].includes(error.code),
        error?.message ?? 'published',
      );
    t.ok(results.some(({ error }) => error === null));
    t.same(await catalogMismatches(storage), []);
    t.equal((await publishTo(await reopened(disk), { files: { 'a.txt': 'a', mine: '1' } })).error, null);
    t.equal(
      (await publishTo(await reopened(disk), { files: { 'b.txt': 'b', theirs: '2' }, as: otherOwner })).error,
      null,
    );
    const files = await snapshot(storage);
    t.same(leftovers(files), []);
    t.same(await catalogMismatches(storage), []);
    t.same([...files.keys()].filter((name) => !name.endsWith('.json')).sort(), [
      'bundle/a.txt',
      'bundle/b.txt',
      'bundle/mine',
      'bundle/theirs',
    ]);
  },
);

async function reopened(disk: MemoryDisk): Promise<Storage> {
  return memoryStorage({ disk, flavour: 'objects', conditionalWrites: 'none' });
}

/** Resolves for all once this many have arrived. */
function meeting(size: number): () => Promise<void> {
  let here = 0;
  let open = (): void => undefined;
  const met = new Promise<void>((resolve) => (open = resolve));
  return async () => {
    here += 1;
    if (here >= size) open();
    await met;
  };
}
