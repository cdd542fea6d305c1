import type fc from 'fast-check';
import type { Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';

/** A storage on which every operation waits for its turn, which a random scheduler determines. */
export function scheduled(storage: Storage, scheduler: fc.Scheduler): Storage {
  const turn = (label: string): Promise<void> => scheduler.schedule(Promise.resolve(), label);
  return aroundOperations(storage, turn, async () => undefined);
}

/**
 * A storage that calls `before` and `after` around each operation. Each move of a `rename` counts
 * separately.
 */
export function aroundOperations(
  storage: Storage,
  before: (label: string) => Promise<void>,
  after: () => Promise<void>,
): Storage {
  const step = async <T>(label: string, work: () => Promise<T>): Promise<T> => {
    await before(label);
    const result = await work();
    await after();
    return result;
  };
  return delegate(storage, {
    stat: (key) => step(`stat ${key}`, () => storage.stat(key)),
    async *list(directory, how) {
      await step(`list ${directory}`, async () => undefined);
      yield* storage.list(directory, how);
    },
    async *read(key) {
      await step(`read ${key}`, async () => undefined);
      yield* storage.read(key);
    },
    write: (key, body, how) => step(`write ${key}`, () => storage.write(key, body, how)),
    async rename(moves) {
      for (const move of moves) await step(`rename ${move.from}`, () => storage.rename!([move]));
    },
    obstacleTo: (change) => step('obstacleTo', () => storage.obstacleTo(change)),
    backUp: (key, aside) => step(`keep ${key}`, () => storage.backUp!(key, aside)),
    duplicate: (from, to) => step(`duplicate ${to}`, () => storage.duplicate!(from, to)),
    readLink: (key) => step(`readLink ${key}`, () => storage.readLink!(key)),
    replaceLink: (key, target) => step(`replaceLink ${key}`, () => storage.replaceLink!(key, target)),
    restore: (kept) => step(`restore ${kept.key}`, () => storage.restore!(kept)),
    remove: (key, options) => step(`remove ${key}`, () => storage.remove(key, options)),
    sync: () => step('sync', () => storage.sync!()),
    removeTree: (directory) => step(`removeTree ${directory}`, () => storage.removeTree(directory)),
    close: () => storage.close(),
  });
}
