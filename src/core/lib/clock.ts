import { onAbort } from './on-abort.ts';

/**
 * The core's source of time. Code that waits or needs the time is passed a clock, so that tests can control
 * it.
 */
export interface Clock {
  /** Wall-clock time, for catalogs and for people. */
  now(): Date;
  /** Milliseconds on a clock that never jumps. Use it for timeouts and leases. */
  monotonic(): number;
  /**
   * Waits `ms` milliseconds. If the signal aborts first, throws its reason. The maximum is 2^31 - 1 ms (24.8
   * days), because Node.js timers that are set any longer fire immediately. `timeout` and `every` have the
   * same maximum.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once, after `ms` milliseconds, unless it is canceled before that. */
  timeout(ms: number, callback: () => void, options?: TimerOptions): Timer;
  /**
   * Calls `callback` every `ms` milliseconds until it is canceled. The first call is after `ms` milliseconds.
   */
  every(ms: number, callback: () => void, options?: TimerOptions): Timer;
}

interface TimerOptions {
  /** Let the process exit even if the timer is still pending. By default, a pending timer keeps it alive. */
  unref?: boolean;
}

export interface Timer {
  /** Cancels the timer. Does nothing if it has fired or was canceled before. */
  cancel(): void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  // `node:timers/promises` would be slower: whenever a sleep ends early, as most do, it creates an error with
  // a stack trace.
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

/** Waits for `work`, but at most `ms` milliseconds. Returns false if it takes longer. Throws its errors. */
export function waitAtMost(
  clock: Pick<Clock, 'timeout'>,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.timeout(ms, () => resolve(false));
    void work.then(() => resolve(true), reject).finally(() => timer.cancel());
  });
}
