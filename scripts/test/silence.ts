/** Calls back after a period without output. */
export interface SilenceWatch {
  heard(): void;
  /** Stops watching: output may still arrive after the process has ended. */
  end(): void;
}

export function watchSilence(ms: number, onSilence: () => void): SilenceWatch {
  let timer: NodeJS.Timeout | undefined = setTimeout(onSilence, ms);
  return {
    heard: () => void timer?.refresh(),
    end() {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
