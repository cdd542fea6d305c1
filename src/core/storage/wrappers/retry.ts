import pMap from 'p-map';
import { hasCode } from '../../lib/errors.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import type { Move, Storage } from '../storage.ts';

const looksAtOnce = 16;

/**
 * Wraps a storage so that calls that fail with `storage_transient` are retried as the policy says. Bodies are
 * opened again for each attempt. `list` and `read` are retried only until they have yielded something.
 *
 * Two calls cannot simply be repeated, because the failed attempt may have been applied after all. A move
 * whose source is gone and whose target exists has been made. A conditional write whose condition no longer
 * holds on a later attempt may have changed the key itself: it throws the earlier `storage_transient`, and
 * the caller reads back what is stored.
 */
export function withRetry(storage: Storage, policy: Omit<RetryOptions, 'outage'>): Storage {
  const options: RetryOptions = { ...policy, outage: {} };
  const again = <T>(work: (attempt: number) => Promise<T>): Promise<T> => retry(options, work);
  return {
    label: storage.label,
    facts: {
      ...storage.facts,
      conditionalWrites: () => again(() => storage.facts.conditionalWrites()),
    },
    stat: (key) => again(() => storage.stat(key)),
    list: (directory, how) => againUntilFirst(options, () => storage.list(directory, how)),
    read: (key, expected) => againUntilFirst(options, () => storage.read(key, expected)),
    async write(key, body, how) {
      let lost: unknown;
      return again(async (attempt) => {
        try {
          return await storage.write(key, body, how);
        } catch (failure) {
          // The lost response may have been "created". Only reading back can show that, which the caller
          // does.
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
        while (remaining.length > 0) {
          try {
            await storage.rename(remaining);
            return;
          } catch (failure) {
            // A server may carry out a request of the lost connection as late as now, and take a source away.
            if (attempt === 1 || !hasCode(failure, 'storage_not_found')) throw failure;
            const left = await movesNotDone(storage, remaining);
            if (left.length === remaining.length) throw failure;
            remaining = left;
          }
        }
      });
    },
    obstacleTo: (change) => again(() => storage.obstacleTo(change)),
    keep: (key, aside) => again(() => storage.keep(key, aside)),
    putBack: (kept) => again(() => storage.putBack(kept)),
    duplicate: (from, to) => again(() => storage.duplicate(from, to)),
    readLink: (key) => again(() => storage.readLink(key)),
    replaceLink: (key, target) => again(() => storage.replaceLink(key, target)),
    sync: () => again(() => storage.sync()),
    remove: (key, options) => again(() => storage.remove(key, options)),
    removeTree: (directory) => again(() => storage.removeTree(directory)),
    close: () => storage.close(),
  };
}

/** A move was made if its source is gone and its target present. */
async function movesNotDone(storage: Storage, moves: readonly Move[]): Promise<readonly Move[]> {
  const isDone = await pMap(
    moves,
    async ({ from, to }) =>
      (await storage.stat(from)) === undefined && (await storage.stat(to)) !== undefined,
    { concurrency: looksAtOnce },
  );
  return moves.filter((_, index) => isDone[index] !== true);
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
