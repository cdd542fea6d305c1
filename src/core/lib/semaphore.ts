import { onAbort } from './on-abort.ts';
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
