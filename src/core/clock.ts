import { performance } from 'node:perf_hooks';

/**
 * Time as the core sees it, so that tests can bend it. Everything that waits or dates something takes one.
 */
export interface Clock {
  /** Wall-clock time, for what people and catalogs read. */
  now(): Date;
  /** Milliseconds of a clock that never jumps, for time-outs and leases. */
  monotonic(): number;
  /** Waits `ms` milliseconds; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  // By hand, because the timers of `node:timers/promises` make an error with a stack for each sleep that is
  // ended early, and most are.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', giveUp);
        resolve();
      }, ms);
      if (signal?.aborted === true) giveUp();
      else signal?.addEventListener('abort', giveUp, { once: true });
    }),
};
