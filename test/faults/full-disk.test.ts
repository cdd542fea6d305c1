import t from 'tap';
import { WaybillError } from '../../src/core/lib/errors.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';
import { type MemoryDisk, memoryStorage } from '../support/memory-storage.ts';
import { catalogMismatches, leftovers, publishTo, snapshot, stateOf } from './world.ts';

t.test('a disk that becomes full during staging stays unchanged, without an intent', async (t) => {
  const disk: MemoryDisk = new Map();
  let capacity = 20_000;
  const open = (): Storage => limited(memoryStorage({ disk, flavour: 'files' }), disk, () => capacity);
  t.equal((await publishTo(open(), { files: { 'a.txt': 'a1', 'b.txt': 'b1' } })).error, null);
  const before = await snapshot(open());

  const large = { 'a.txt': 'a2'.repeat(5_000), 'b.txt': 'b2'.repeat(5_000) };
  const { error } = await publishTo(open(), { files: large });
  t.match(error, { code: 'storage_full' });
  const state = await stateOf(open());
  t.ok(state.kind === 'valid' && state.catalog.pending === null, 'the state could be restored');
  t.same(await snapshot(open()), before);

  capacity = 200_000;
  t.match(await publishTo(open(), { files: large }), { action: 'upsert_additive', error: null });
  t.same(await catalogMismatches(open()), []);
  t.same(leftovers(await snapshot(open())), []);
});

/** A disk of this many bytes. */
function limited(storage: Storage, disk: MemoryDisk, capacity: () => number): Storage {
  const used = (): number => [...disk.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  return delegate(storage, {
    async write(key, body, options) {
      if (used() + body.size > capacity()) throw new WaybillError('storage_full', 'no space left');
      return storage.write(key, body, options);
    },
  });
}
