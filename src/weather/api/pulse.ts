import type { Clock } from '../../core/lib/clock.ts';

/** Whether the weather database answers, without waiting for it. */
export interface Pulse {
  /** As found by the last probe that ended. The look starts another if that one is some seconds old. */
  isUp(): boolean;
}

const freshMs = 2000;

/** A probe may take until the deadline of a read, and readiness must not. */
export function newPulse(reader: { probe(): Promise<void> }, clock: Clock): Pulse {
  let isUp = true;
  let probedAt = -Infinity;
  let isProbing = false;
  const probe = (): void => {
    isProbing = true;
    void reader
      .probe()
      .then(
        () => (isUp = true),
        () => (isUp = false),
      )
      .finally(() => {
        isProbing = false;
        probedAt = clock.monotonic();
      });
  };
  probe();
  return {
    isUp: () => {
      if (!isProbing && clock.monotonic() - probedAt >= freshMs) probe();
      return isUp;
    },
  };
}
