import { setImmediate as nextTurn } from 'node:timers/promises';
import { onAbort } from './on-abort.ts';

/** Number of items after which the loop yields to the event loop. */
const itemsPerYield = 256;

/**
 * Runs `work` on each item, limiting concurrency to `concurrency` (at least 1). After the first failure,
 * starts no further items, waits for those in progress so that none is running while the caller cleans up,
 * and then throws the first failure. Yields to the event loop periodically, because work that never waits,
 * such as on a local disk, would otherwise block timers, including the lease's.
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
  // Use plain runners, because p-map creates several promises per item.
  await Promise.all(Array.from({ length: concurrency }, runner));
  if (failures.length > 0) throw failures[0];
}

/**
 * A weighted counting semaphore. Permits are granted in request order, so that small requests do not starve a
 * large one.
 */
export interface Semaphore {
  /**
   * Acquires all `permits` together (at least 1; more than the capacity counts as the whole capacity).
   * Returns a function that releases them, which may be called twice. If `signal` aborts first, the request
   * leaves the queue and throws the signal's reason.
   */
  acquire(permits: number, signal?: AbortSignal): Promise<() => void>;
  /**
   * Like `acquire`, but does not wait. Returns null if the permits are not free or other requests are
   * waiting.
   */
  tryAcquire(permits: number): (() => void) | null;
}

interface Waiting {
  permits: number;
  grant: () => void;
}

export function createSemaphore(capacity: number): Semaphore {
  let free = capacity;
  // A set preserves insertion order, and a cancelled request can be removed from anywhere in it.
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
        // The requests behind it may fit even though this one did not.
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
