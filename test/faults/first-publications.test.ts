import t from 'tap';
import type { Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';
import { generator, howMany } from '../support/sampling.ts';
import {
  catalogMismatches,
  leftovers,
  newWorld,
  otherOwner,
  publishTo,
  snapshot,
  stateOf,
  testClock,
} from './world.ts';

/**
 * Rounds of two owners that concurrently publish to one bundle path for the first time. They write different
 * paths, so there is no conflict: the second one waits, or decides again.
 */
const rounds = howMany(200, 20);

for (const kind of ['memory files', 'memory objects', 'local'] as const)
  t.test(`${kind}: two first publications at one path both succeed`, async (t) => {
    const random = generator(`first publications, ${kind}`);
    const wrong: string[] = [];
    for (let round = 1; round <= rounds; round += 1) {
      const world = newWorld(kind, t);
      const results = await Promise.all([
        publishTo(unsteady(await world.open(), random), { files: { 'one.txt': '1' } }, liveClock()),
        publishTo(
          unsteady(await world.open(), random),
          { files: { 'two.txt': '2' }, as: otherOwner },
          liveClock(),
        ),
      ]);
      for (const { action, error } of results)
        if (error !== null) wrong.push(`round ${round}: ${action} ${error.code} ${error.message}`);
      const storage = await world.open();
      const state = await stateOf(storage);
      const paths = state.kind === 'valid' ? state.catalog.outputs.map(({ path }) => path) : [];
      if (paths.join() !== 'one.txt,two.txt') wrong.push(`round ${round}: ${paths.join()} is recorded`);
      wrong.push(...(await catalogMismatches(storage)), ...leftovers(await snapshot(storage)));
    }
    t.same(wrong.slice(0, 5), [], `${rounds} rounds`);
  });

/** A clock on which a wait lets the other publisher run. */
function liveClock(): ReturnType<typeof testClock> {
  const clock = testClock();
  return {
    ...clock,
    async sleep(ms, signal) {
      await new Promise((resolve) => setImmediate(resolve));
      // The other publisher is alive and fast, so it never becomes stale.
      await clock.sleep(Math.min(ms, ms === 30_000 ? ms : 1), signal);
    },
  };
}

/** Lets the other publisher run for a while, or not, before each operation. */
function unsteady(storage: Storage, random: () => number): Storage {
  const turns = async (): Promise<void> => {
    for (let turn = Math.floor(random() * 4); turn > 0; turn -= 1)
      await new Promise((resolve) => setImmediate(resolve));
  };
  const soon = async <T>(work: () => Promise<T>): Promise<T> => {
    await turns();
    return work();
  };
  return delegate(storage, {
    stat: (key) => soon(() => storage.stat(key)),
    async *list(directory, how) {
      await turns();
      yield* storage.list(directory, how);
    },
    async *read(key) {
      await turns();
      yield* storage.read(key);
    },
    write: (key, body, how) => soon(() => storage.write(key, body, how)),
    rename: (moves) => soon(() => storage.rename!(moves)),
    remove: (key) => soon(() => storage.remove(key)),
    removeTree: (directory) => soon(() => storage.removeTree(directory)),
  });
}
