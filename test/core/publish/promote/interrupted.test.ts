import t from 'tap';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { newLog } from '../../../faults/walk.ts';
import { withFaults } from '../../../faults/with-faults.ts';
import { catalogMismatches, leftovers, publishTo, snapshot } from '../../../faults/world.ts';
import { type MemoryDisk, memoryStorage } from '../../../support/memory-storage.ts';
import { actionsOf, errorOf, filesAt, promoted, sorted, v1, v2 } from './promotions.ts';

/** Killed promotions, and publications to the source destination during a promotion. */

const version1 = sorted(v1);
const version2 = sorted(v2);

const crash = (at: number) => ({ kind: 'crash', at, code: 'storage_permanent' }) as const;

for (const flavour of ['files', 'objects'] as const) {
  const staged = async (): Promise<Storage> => {
    const staging = memoryStorage({ flavour });
    await publishTo(staging, { files: v1 });
    return staging;
  };

  t.test(`${flavour}: after a kill at any operation, the next promotion finishes`, async (t) => {
    const staging = await staged();
    const start: MemoryDisk = new Map();
    await promoted(staging, memoryStorage({ disk: start, flavour }));
    await publishTo(staging, { files: v2, workflow: 'replacement' });
    const log = newLog();
    await promoted(staging, withFaults(memoryStorage({ disk: new Map(start), flavour }), null, log));
    t.ok(log.mutations > 5, 'the clean promotion changes something');
    for (let at = 1; at <= log.operations.length; at += 1) {
      const disk = new Map(start);
      const killed = withFaults(memoryStorage({ disk, flavour }), crash(at), newLog());
      await promoted(staging, killed).catch(() => undefined);
      const live = memoryStorage({ disk, flavour });
      t.same(await catalogMismatches(live), [], `the catalog is correct after a kill at ${at}`);
      t.equal(errorOf(await promoted(staging, live)), null, `killed at ${at}`);
      t.same(await filesAt(live), version2);
      t.same(leftovers(await snapshot(live)), []);
      t.same(actionsOf(await promoted(staging, live)), [['bundle', 'skip_same']]);
    }
  });

  t.test(`${flavour}: rejects a source whose publication was killed, unless it is complete`, async (t) => {
    const log = newLog();
    const publishV2 = async (storage: Storage): Promise<unknown> =>
      publishTo(storage, { files: v2, workflow: 'replacement' });
    await publishV2(withFaults(await staged(), null, log));
    const seen = new Set<string>();
    for (let at = 1; at <= log.operations.length; at += 1) {
      const staging = await staged();
      await publishV2(withFaults(staging, crash(at), newLog())).catch(() => undefined);
      const live = memoryStorage({ flavour });
      const failure = await promoted(staging, live).then(errorOf, (thrown: unknown) => thrown);
      const found = await filesAt(live);
      if (failure === null) seen.add(found['a.txt'] ?? '');
      else {
        t.match(failure, { code: 'destination_busy', message: /nothing was promoted/ }, `killed at ${at}`);
        seen.add('refused');
      }
      t.same(found, failure === null ? (found['a.txt'] === 'a1' ? version1 : version2) : {});
    }
    t.same([...seen].sort(), ['a1', 'a2', 'refused']);
  });

  t.test(`${flavour}: a publication between any two reads never leads to a mixture`, async (t) => {
    const count = newLog();
    await promoted(withFaults(await staged(), null, count), memoryStorage({ flavour }));
    const seen = new Set<string>();
    for (let at = 1; at <= count.operations.length; at += 1) {
      const staging = await staged();
      let reads = 0;
      const before = async (): Promise<void> => {
        if ((reads += 1) === at) await publishTo(staging, { files: v2, workflow: 'replacement' });
      };
      const disturbed = delegate(staging, {
        async stat(key) {
          await before();
          return staging.stat(key);
        },
        async *list(directory, how) {
          await before();
          yield* staging.list(directory, how);
        },
        async *read(key) {
          await before();
          yield* staging.read(key);
        },
      });
      const live = memoryStorage({ flavour });
      const failure = await promoted(disturbed, live).then(errorOf, (thrown: unknown) => thrown);
      const found = await filesAt(live);
      seen.add(failure === null ? (found['a.txt'] ?? '') : 'refused');
      if (failure !== null) t.match(failure, { code: 'verification_failed', message: /sha256:/ });
      t.same(found, failure === null ? (found['a.txt'] === 'a1' ? version1 : version2) : {}, `at ${at}`);
    }
    t.ok(seen.has('a2') && seen.has('refused'), [...seen].join());
  });
}
