import { hasCode } from '../../errors.ts';
import { retry, type RetryOptions } from '../../retry.ts';
import type { Move, Storage } from '../storage.ts';

/**
 * A storage whose calls are tried again after `storage_transient`, as the policy says. Bodies are opened anew
 * for each try; streams are tried again only until their first chunk has been handed out.
 *
 * Two calls are not simply repeatable, because the try that failed may have been applied after all. A move
 * whose source is gone and whose target is there was done. A conditional write that finds its condition
 * broken on a later try may have broken it itself: it fails with the earlier, transient failure, and the
 * caller reads back what is there.
 */
export function withRetry(storage: Storage, options: RetryOptions): Storage {
  const again = <T>(work: (attempt: number) => Promise<T>): Promise<T> => retry(options, work);
  return {
    label: storage.label,
    facts: {
      ...storage.facts,
      conditionalWrites: () => again(() => storage.facts.conditionalWrites()),
    },
    stat: (key) => again(() => storage.stat(key)),
    list: (directory, how) => againUntilFirst(options, () => storage.list(directory, how)),
    read: (key) => againUntilFirst(options, () => storage.read(key)),
    async write(key, body, how) {
      let lost: unknown;
      return again(async (attempt) => {
        try {
          return await storage.write(key, body, how);
        } catch (failure) {
          // The answer to the lost try may have been "created"; only reading back can tell, and that is the
          // caller's to do.
          if (attempt > 1 && (hasCode(failure, 'storage_exists') || hasCode(failure, 'storage_conflict')))
            throw lost;
          lost = failure;
          throw failure;
        }
      });
    },
    async rename(moves) {
      let remaining = moves;
      await again(async (attempt) => {
        if (attempt > 1) remaining = await movesNotDone(storage, remaining);
        if (remaining.length > 0) await storage.rename(remaining);
      });
    },
    sync: () => again(() => storage.sync()),
    remove: (key) => again(() => storage.remove(key)),
    removeTree: (directory) => again(() => storage.removeTree(directory)),
    close: () => storage.close(),
  };
}

/**
 * Moves are done in order, so those already applied are a head of the list: the source gone, the target
 * there.
 */
async function movesNotDone(storage: Storage, moves: readonly Move[]): Promise<readonly Move[]> {
  for (const [index, { from, to }] of moves.entries()) {
    if ((await storage.stat(from)) !== undefined) return moves.slice(index);
    if ((await storage.stat(to)) === undefined) return moves.slice(index);
  }
  return [];
}

async function* againUntilFirst<T>(options: RetryOptions, open: () => AsyncIterable<T>): AsyncIterable<T> {
  const { iterator, first } = await retry(options, async () => {
    const iterator = open()[Symbol.asyncIterator]();
    return { iterator, first: await iterator.next() };
  });
  try {
    for (let step = first; step.done !== true; step = await iterator.next()) yield step.value;
  } finally {
    await iterator.return?.();
  }
}
