import { onAbort } from './on-abort.ts';

/**
 * Time as the core sees it. All code that waits or reads the time takes a clock, so that tests control it.
 */
export interface Clock {
  /** Wall-clock time, for what people and catalogs read. */
  now(): Date;
  /** Milliseconds on a clock that never jumps, for timeouts and leases. */
  monotonic(): number;
  /**
   * Waits `ms` milliseconds. Throws the signal's reason if it aborts first. The maximum is 2^31 - 1 ms (24.8
   * days), because a longer Node.js timer fires immediately. The same applies to `timeout` and `every`.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once, `ms` milliseconds from now, unless it is cancelled first. */
  timeout(ms: number, callback: () => void, options?: TimerOptions): Timer;
  /** Calls `callback` every `ms` milliseconds, starting `ms` from now, until it is cancelled. */
  every(ms: number, callback: () => void, options?: TimerOptions): Timer;
}

export interface TimerOptions {
  /**
   * Lets the process exit while the timer is pending. By default, a pending timer keeps the process alive.
   */
  unref?: boolean;
}

export interface Timer {
  /** Does nothing if the timer has already fired or been cancelled. */
  cancel(): void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  // `node:timers/promises` is not used, because it creates an error with a stack for each sleep that ends
  // early, and most do.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        release?.();
        resolve();
      }, ms);
      const release = signal === undefined ? undefined : onAbort(signal, giveUp);
    }),
  timeout(ms, callback, { unref = false } = {}) {
    const timer = setTimeout(callback, ms);
    if (unref) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
  every(ms, callback, { unref = false } = {}) {
    const timer = setInterval(callback, ms);
    if (unref) timer.unref();
    return { cancel: () => clearInterval(timer) };
  },
};
