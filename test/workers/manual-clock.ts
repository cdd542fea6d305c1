import type { Clock } from '../../src/core/clock.ts';

/** A clock that stands still until it is told to go on. */
export interface ManualClock extends Clock {
  /** Moves time and lets every sleeper that is due go on, in the order of their times. */
  advance: (ms: number) => Promise<void>;
}

export function manualClock(start = new Date('2026-11-20T02:04:34.000Z')): ManualClock {
  let elapsed = 0;
  let sleepers: { at: number; wake: () => void }[] = [];
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return {
    now: () => new Date(start.getTime() + elapsed),
    monotonic: () => elapsed,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const sleeper = { at: elapsed + ms, wake: resolve };
        sleepers.push(sleeper);
        signal?.addEventListener('abort', () => {
          sleepers = sleepers.filter((one) => one !== sleeper);
          reject(signal.reason as Error);
        });
      }),
    advance: async (ms) => {
      const until = elapsed + ms;
      await settle();
      for (;;) {
        const due = sleepers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        sleepers = sleepers.filter((one) => one !== due);
        elapsed = due.at;
        due.wake();
        await settle();
      }
      elapsed = until;
    },
  };
}
