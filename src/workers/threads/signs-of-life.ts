import type { Clock } from '../../core/lib/clock.ts';

// A thread loads its modules before its first sign, which takes long on a busy machine.
const firstSignMs = 120_000;

/**
 * Calls `giveUp` once if a thread that works on a task hangs: no first sign for two minutes, or later none
 * for `silenceMs` milliseconds. Stops watching when `signal` aborts.
 */
export function watchForSigns({
  clock,
  silenceMs,
  signal,
  giveUp,
}: {
  clock: Clock;
  silenceMs: number;
  signal: AbortSignal;
  giveUp: (failure: Error) => void;
}): { seen: () => void } {
  let signs = 0;
  const reportHang = (ms: number): void => giveUp(new Error(`it showed no sign of life for ${ms} ms`));

  async function watchStart(): Promise<void> {
    await clock.sleep(firstSignMs, signal);
    if (signs === 0) reportHang(firstSignMs);
  }

  /** Two silences in a row, because the first may be the sleep of the whole process. */
  async function watchOn(): Promise<void> {
    for (let silences = 0; silences < 2;) {
      const before = signs;
      await clock.sleep(silenceMs / 2, signal);
      silences = signs === before ? silences + 1 : 0;
    }
    reportHang(silenceMs);
  }

  const untilSettled = (watch: Promise<void>): void => void watch.catch(() => undefined);
  untilSettled(watchStart());
  return {
    seen: () => {
      signs += 1;
      if (signs === 1) untilSettled(watchOn());
    },
  };
}
