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
          wake = () => {
            signal.removeEventListener('abort', wake);
            resolve();
          };
          signal.addEventListener('abort', wake, { once: true });
        });
      isRung = false;
    },
  };
}
