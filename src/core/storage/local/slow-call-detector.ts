export interface SlowCallDetector {
  /**
   * Whether most of the recent calls were slow. Each question that is answered with yes lowers the estimate a
   * little, so that after some seventy of them calls are tried again.
   */
  isSlow(): boolean;
  /** Runs `work`, which must be synchronous, and records whether it took longer than `slowMs`. */
  time<T>(work: () => T): T;
}

const weightOfACall = 0.1;
const decayPerQuestion = 0.99;

/**
 * Distinguishes a disk that has to be waited for from one that answers at once. What counts is how many of
 * the recent calls took longer than `slowMs` milliseconds, not how long they took: on a busy machine a call
 * now and then takes milliseconds because its thread lost the processor, which says nothing about the disk.
 *
 * `now` returns milliseconds; only tests pass their own.
 */
export function slowCallDetector({
  slowMs,
  now = () => performance.now(),
}: {
  slowMs: number;
  now?: () => number;
}): SlowCallDetector {
  let slowShare = 0;
  return {
    isSlow() {
      const isSlow = slowShare > 0.5;
      if (isSlow) slowShare *= decayPerQuestion;
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
