import { setImmediate as breathe } from 'node:timers/promises';
import { onAbort } from './on-abort.ts';

/** After so many items the event loop gets its turn. */
const itemsPerBreath = 256;

/**
 * Runs `work` on each item, at most `concurrency` (from 1) at once. After the first failure nothing more is
 * started; whatever is under way is awaited, so that nothing still runs while the caller cleans up; then the
 * first failure is thrown. Work that never waits (a local disk answers at once) would keep timers from
 * running for as long as there are items, above all the lease's; so this yields to them now and then.
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
        if (begun % itemsPerBreath === 0) await breathe();
        if (failures.length > 0) return;
        await work(next.value);
      }
    } catch (error) {
      failures.push(error);
    }
  };
  // p-map makes several promises for each item.
  await Promise.all(Array.from({ length: concurrency }, runner));
  if (failures.length > 0) throw failures[0];
}

/**
 * A weighted counting semaphore. Permits are granted in the order of asking, so that a large request is not
 * starved by small ones.
 */
export interface Semaphore {
  /**
   * Takes `permits` at once (at least 1; more than the capacity counts as all of it) and resolves with the
   * function that returns them, which may be called twice. If `signal` aborts first, the request leaves the
   * queue and rejects with the signal's reason.
   */
  acquire(permits: number, signal?: AbortSignal): Promise<() => void>;
  /** The same without waiting: null if the permits are not free, or if others wait for theirs. */
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
