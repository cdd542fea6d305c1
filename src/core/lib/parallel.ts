import { setImmediate as nextTurn } from 'node:timers/promises';
import { onAbort } from './on-abort.ts';

/** Number of items after which the event loop gets a turn. */
const itemsPerYield = 256;

/**
 * Runs `work` on each item, at most `concurrency` (from 1) concurrently. After the first failure, no
 * further item is started. The items in progress are awaited, so that none is running while the caller
 * cleans up. Then the first failure is thrown. Yields to the event loop now and then: work that never
 * waits, such as on a local disk, would otherwise block timers, including the lease's.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const remaining = items[Symbol.iterator]();
  let begun = 0;
  const runner = async (): Promise<void> => {
    try {
      for (let next = remaining.next(); next.done !== true; next = remaining.next()) {
        begun += 1;
        if (begun % itemsPerYield === 0) await nextTurn();
        if (failures.length > 0) return;
        await work(next.value);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  // Plain runners, since p-map makes several promises for each item.
  await Promise.all(Array.from({ length: concurrency }, runner));
  if (failures.length > 0) throw failures[0];
}

/**
 * A weighted counting semaphore. Permits are granted in the order of the requests, so that small ones do
 * not starve a large one.
 */
export interface Semaphore {
  /**
   * Acquires `permits` together (at least 1; more than the capacity counts as the whole capacity). Resolves
   * with the function that returns them, which may be called twice. If `signal` aborts first, the request
   * leaves the queue and rejects with the signal's reason.
   */
  acquire(permits: number, signal?: AbortSignal): Promise<() => void>;
  /** Like `acquire` without waiting: null if the permits are not free, or if other requests are waiting. */
  tryAcquire(permits: number): (() => void) | null;
}

interface Waiting {
  permits: number;
  grant: () => void;
}

export function createSemaphore(capacity: number): Semaphore {
  let free = capacity;
  // A set keeps the order of insertion, and a request that is cancelled leaves from anywhere in it.
  const queue = new Set<Waiting>();

  const grantNext = (): void => {
    for (const next of queue) {
      if (next.permits > free) return;
      queue.delete(next);
      free -= next.permits;
      next.grant();
    }
  };
  const releaseOnce = (permits: number): (() => void) => {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      free += permits;
      grantNext();
    };
  };
  const enqueue = (permits: number, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const waiting: Waiting = {
        permits,
        grant: () => {
          release?.();
          resolve();
        },
      };
      const cancel = (): void => {
        queue.delete(waiting);
        reject(signal?.reason as Error);
        // The ones behind may fit where this one did not.
        grantNext();
      };
      queue.add(waiting);
      const release = signal === undefined ? undefined : onAbort(signal, cancel);
    });

  const tryAcquire: Semaphore['tryAcquire'] = (asked) => {
    const permits = Math.min(asked, capacity);
    if (queue.size > 0 || permits > free) return null;
    free -= permits;
    return releaseOnce(permits);
  };
  return {
    tryAcquire,
    async acquire(asked, signal) {
      signal?.throwIfAborted();
      const release = tryAcquire(asked);
      if (release !== null) return release;
      const permits = Math.min(asked, capacity);
      await enqueue(permits, signal);
      return releaseOnce(permits);
    },
  };
}
