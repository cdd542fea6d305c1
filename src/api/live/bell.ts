import { onAbort } from '../../core/lib/on-abort.ts';

/** Remembers that it was rung until somebody has waited for it. */
export interface Bell {
  ring: () => void;
  /** Resolves when the bell was rung since the last wait began, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void>;
}

/** A bell for one who waits, whoever rings. */
export function newBell(): Bell {
  let isRung = false;
  let wake: () => void = () => undefined;
  return {
    ring: () => {
      isRung = true;
      wake();
    },
    wait: async (signal) => {
      if (!isRung && !signal.aborted)
        await new Promise<void>((resolve) => {
          const release = onAbort(signal, () => wake());
          wake = () => {
            release();
            resolve();
          };
        });
      isRung = false;
    },
  };
}
