import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';

/** Time as the core sees it, so that tests can bend it. Everything that waits or dates something takes one. */
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
  sleep: async (ms, signal) => {
    try {
      await delay(ms, undefined, signal === undefined ? undefined : { signal });
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};
