import pMap from 'p-map';
import { hasCode } from '../../lib/errors.ts';
import { retry, type RetryOptions } from '../../lib/retry.ts';
import type { Move } from '../capabilities.ts';
import type { Key } from '../key.ts';
import {
  type Body,
  canRename,
  type RenamingStorage,
  type Storage,
  type WriteOptions,
  type Written,
} from '../storage.ts';
import { intercept } from './delegate.ts';

const maxConcurrentStats = 16;

/**
 * Wraps a storage so that calls are retried when they fail with `storage_transient`, as the policy says.
 * Bodies are opened again for each attempt. `list` and `read` are only retried as long as they have not
 * returned anything.
 *
 * Two calls cannot just be repeated, because an attempt that looks like a failure may have had an effect. A
 * move has been made if its source no longer exists but its target does. If the condition of a write is not
 * met on a retry, the write itself may be the reason. In this case, the earlier `storage_transient` is
 * thrown, and the caller has to read back what is stored.
 */
export function withRetry(storage: Storage, retryOptions: RetryOptions): Storage {
  const options: RetryOptions = { outage: {}, ...retryOptions };
  return intercept(
    storage,
    {
      call: (_name, _args, run) => retry(options, run),
      stream: (_name, _args, open) => againUntilFirst(options, open),
    },
    {
      facts: {
        ...storage.facts,
        conditionalWrites: () => retry(options, () => storage.facts.conditionalWrites()),
      },
      write: (key, body, how) => writeAgain(storage, options, key, body, how),
      rename: canRename(storage) ? (moves) => renameAgain(storage, options, moves) : undefined,
      close: () => storage.close(),
    },
  );
}

async function writeAgain(
  storage: Storage,
  options: RetryOptions,
  key: Key,
  body: Body,
  how: WriteOptions,
): Promise<Written> {
  let lost: unknown;
  const written = await retry(options, async (attempt) => {
    try {
      return await storage.write(key, body, how);
    } catch (failure) {
      // We may have lost a response that said "created". Only the caller can find out, by reading the file
      // back.
      if (attempt > 1 && (hasCode(failure, 'storage_exists') || hasCode(failure, 'storage_conflict')))
        return null;
      lost = failure;
      throw failure;
    }
  });
  // Thrown here, because `retry` would repeat the write.
  if (written === null) throw lost;
  return written;
}

async function renameAgain(
  storage: RenamingStorage,
  options: RetryOptions,
  moves: readonly Move[],
): Promise<void> {
  let remaining = moves;
  await retry(options, async (attempt) => {
    if (attempt > 1) remaining = await movesNotDone(storage, remaining);
    while (remaining.length > 0) {
      try {
        await storage.rename(remaining);
        return;
      } catch (failure) {
        // The connection was lost, and the server may have made one of the moves since.
        if (attempt === 1 || !hasCode(failure, 'storage_not_found')) throw failure;
        const pendingMoves = await movesNotDone(storage, remaining);
        if (pendingMoves.length === remaining.length) throw failure;
        remaining = pendingMoves;
      }
    }
  });
}

/**
 * Returns the moves that have yet to be made. A move was made if its source no longer exists but its target
 * does.
 */
async function movesNotDone(storage: Storage, moves: readonly Move[]): Promise<readonly Move[]> {
  const isDone = await pMap(
    moves,
    async ({ from, to }) =>
      (await storage.stat(from)) === undefined && (await storage.stat(to)) !== undefined,
    { concurrency: maxConcurrentStats },
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
