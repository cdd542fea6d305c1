import { defaultLeaseTimes } from '../../../../src/core/catalog/lease/lease.ts';
import type { Clock } from '../../../../src/core/lib/clock.ts';
import { testClock, untilAborted } from '../../../faults/world.ts';

/** A clock that renews a lease when the test requests it. */
export interface BeatingClock extends Clock {
  /** Advances to the next renewal and waits until it has ended. */
  beat(): Promise<void>;
  /** Advances without a renewal, as in a suspended process. */
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
      // Memory storages respond in microtasks, so the renewal has ended now.
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
