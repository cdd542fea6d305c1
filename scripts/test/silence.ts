/** Calls a function if there is no output for some time. */
export interface SilenceWatch {
  refresh(): void;
  /** Stops waiting. Call this even if the process has ended, because there can still be output. */
  end(): void;
}

export function watchSilence(ms: number, onSilence: () => void): SilenceWatch {
  let timer: NodeJS.Timeout | undefined = setTimeout(onSilence, ms);
  return {
    refresh: () => void timer?.refresh(),
    end() {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
