import type { Clock, Timer } from '../../src/core/lib/clock.ts';

/** A clock that only advances on request. */
export interface ManualClock extends Clock {
  /** Advances time and fires every timer that is due, in the order of their times. */
  advance: (ms: number) => Promise<void>;
}

interface Pending {
  at: number;
  fire: () => void;
}

export function manualClock(start = new Date('2026-11-20T02:04:34.000Z')): ManualClock {
  let elapsed = 0;
  let pending: Pending[] = [];
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const timeout = (ms: number, callback: () => void): Timer => {
    const timer = { at: elapsed + ms, fire: callback };
    pending.push(timer);
    return { cancel: () => void (pending = pending.filter((one) => one !== timer)) };
  };
  return {
    now: () => new Date(start.getTime() + elapsed),
    monotonic: () => elapsed,
    timeout,
    every: (ms, callback) => {
      const again = (): void => {
        next = timeout(ms, again);
        callback();
      };
      let next = timeout(ms, again);
      return { cancel: () => next.cancel() };
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const giveUp = (): void => {
          timer.cancel();
          reject(signal?.reason as Error);
        };
        const timer = timeout(ms, () => {
          signal?.removeEventListener('abort', giveUp);
          resolve();
        });
        signal?.addEventListener('abort', giveUp, { once: true });
      }),
    advance: async (ms) => {
      const until = elapsed + ms;
      await settle();
      for (;;) {
        const due = pending.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        pending = pending.filter((one) => one !== due);
        elapsed = due.at;
        due.fire();
        await settle();
      }
      elapsed = until;
    },
  };
}
