import { setImmediate as nextTurn } from 'node:timers/promises';
import { onAbort } from './on-abort.ts';

/** How many items to process before letting the event loop run. */
const itemsPerYield = 256;

/**
 * Runs `work` on each item, with up to `concurrency` (at least 1) of them at a time. After the first failure,
 * no other item is started. The ones that are running are allowed to finish, so that the caller can clean up
 * safely, and the failure is thrown. The event loop gets to run every now and then. Otherwise, work that
 * never waits, as on a local disk, would hold up timers, including the one that renews the lease.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  const remaining = items[Symbol.iterator]();
  let startedCount = 0;
  const runner = async (): Promise<void> => {
    try {
      for (let next = remaining.next(); next.done !== true; next = remaining.next()) {
        startedCount += 1;
        if (startedCount % itemsPerYield === 0) await nextTurn();
        if (failures.length > 0) return;
        await work(next.value);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  // Simple loops are cheaper than p-map, which creates several promises for each item.
  await Promise.all(Array.from({ length: concurrency }, runner));
  if (failures.length > 0) throw failures[0];
}

/**
 * A semaphore for requests of different sizes. Permits are handed out first come, first served, so that a
 * large request does not have to wait forever while small ones get in.
 */
export interface Semaphore {
  /**
   * Waits for `permits` permits, at least 1, and returns a function that gives them back. You can call that
   * twice. A request for more than there are gets all of them. If `signal` aborts first, throws the signal's
   * reason and stops waiting.
   */
  acquire(permits: number, signal?: AbortSignal): Promise<() => void>;
  /**
   * Like `acquire`, except that it returns null if there are not enough permits right now, or if other
   * requests are waiting.
   */
  tryAcquire(permits: number): (() => void) | null;
}

interface PermitRequest {
  permits: number;
  grant: () => void;
}

export function createSemaphore(capacity: number): Semaphore {
  let free = capacity;
  // A set is ordered too, and a canceled request can be deleted from the middle of it.
  const queue = new Set<PermitRequest>();

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
      const waiting: PermitRequest = {
        permits,
        grant: () => {
          release?.();
          resolve();
        },
      };
      const cancel = (): void => {
        queue.delete(waiting);
        reject(signal?.reason as Error);
        // This request did not fit, but the ones behind it may.
        grantNext();
      };
      queue.add(waiting);
      const release = signal === undefined ? undefined : onAbort(signal, cancel);
    });

  const tryAcquire: Semaphore['tryAcquire'] = (requested) => {
    const permits = Math.min(requested, capacity);
    if (queue.size > 0 || permits > free) return null;
    free -= permits;
    return releaseOnce(permits);
  };
  return {
    tryAcquire,
    async acquire(requested, signal) {
      signal?.throwIfAborted();
      const release = tryAcquire(requested);
      if (release !== null) return release;
      const permits = Math.min(requested, capacity);
      await enqueue(permits, signal);
      return releaseOnce(permits);
    },
  };
}
