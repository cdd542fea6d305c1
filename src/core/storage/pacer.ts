import { performance } from 'node:perf_hooks';

export interface Pacer {
  /** True while the timed calls took longer than they may on average. Asking makes it forget a little, so that it is tried again. */
  isSlow(): boolean;
  time<T>(work: () => T): T;
}

/** Keeps a moving average of how long synchronous calls take, to tell a disk that is waited for from one that answers at once. */
export function pacer({ slowMs }: { slowMs: number }): Pacer {
  // One call that took very long tells of a busy machine and must not weigh like a hundred.
  const mostMs = slowMs * 10;
  let averageMs = 0;
  return {
    isSlow() {
      const isSlow = averageMs > slowMs;
      if (isSlow) averageMs *= 0.99;
      return isSlow;
    },
    time(work) {
      const started = performance.now();
      try {
        return work();
      } finally {
        averageMs = 0.9 * averageMs + 0.1 * Math.min(performance.now() - started, mostMs);
      }
    },
  };
}
