import { performance } from 'node:perf_hooks';

export interface Pacer {
  /**
   * True while most of the timed calls took longer than they may. Asking makes it forget a little, so that it
   * is tried again.
   */
  isSlow(): boolean;
  time<T>(work: () => T): T;
}

const weightOfACall = 0.1;
const keptByAsking = 0.99;

/**
 * Tells a disk that is waited for from one that answers at once, by how many of the last synchronous calls
 * were slow, and not by how slow they were: on a busy machine a call now and then takes milliseconds because
 * its thread lost the processor in the midst of it, and says nothing about the disk. Once most are slow it
 * stays so for some seventy asks.
 */
export function pacer({
  slowMs,
  now = () => performance.now(),
}: {
  slowMs: number;
  now?: () => number;
}): Pacer {
  let slowShare = 0;
  return {
    isSlow() {
      const isSlow = slowShare > 0.5;
      if (isSlow) slowShare *= keptByAsking;
      return isSlow;
    },
    time(work) {
      const started = now();
      try {
        return work();
      } finally {
        const isSlow = now() - started > slowMs;
        slowShare = (1 - weightOfACall) * slowShare + (isSlow ? weightOfACall : 0);
        if (slowShare > 0.5) slowShare = 1;
      }
    },
  };
}
