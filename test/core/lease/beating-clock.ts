import type { Clock } from '../../../src/core/clock.ts';
import { defaultLeaseTimes } from '../../../src/core/lease/lease.ts';
import { testClock, untilAborted } from '../../faults/world.ts';

/** A clock on which a lease is renewed when the test says so. */
export interface BeatingClock extends Clock {
  /** Lets the time to the next renewal pass, and waits until that renewal has ended. */
  beat(): Promise<void>;
  /** Lets time pass without a renewal, as in a process that is suspended. */
  pass(ms: number): Promise<void>;
}

export function beatingClock(): BeatingClock {
  const clock = testClock();
  let asleep = promised();
  let wake = (): void => undefined;
  return {
    ...clock,
    async sleep(ms, signal) {
      if (ms !== defaultLeaseTimes.renewEveryMs) return clock.sleep(ms, signal);
      const { promise, resolve } = promised();
      wake = resolve;
      asleep.resolve();
      await Promise.race([promise, untilAborted(signal)]);
    },
    async beat() {
      await asleep.promise;
      asleep = promised();
      await clock.sleep(defaultLeaseTimes.renewEveryMs - 1);
      await clock.sleep(1);
      wake();
      // Memory storages answer in microtasks, so that by then the renewal is over.
      await new Promise((resolve) => setImmediate(resolve));
    },
    pass: async (ms) => clock.sleep(ms),
  };
}

function promised(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}
