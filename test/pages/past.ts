import { systemClock } from '../../src/core/lib/clock.ts';

/**
 * Sets the clock of this process back during `work`, so that the runs of a sample page have plausible times
 * and durations. The clock is `pace` times faster, because publishing to the local disk takes milliseconds.
 * The threads that publish keep the right time.
 */
export async function past<T>(minutesAgo: number, work: () => Promise<T>, pace = 60): Promise<T> {
  const now = systemClock.now.bind(systemClock);
  const beganMs = performance.now();
  const fromMs = now().getTime() - minutesAgo * 60_000;
  systemClock.now = () => new Date(fromMs + pace * (performance.now() - beganMs));
  try {
    return await work();
  } finally {
    systemClock.now = now;
  }
}
