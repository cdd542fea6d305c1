/** Calls back once nothing was heard for a while. */
export interface SilenceWatch {
  heard(): void;
  /** From now on silence means nothing, and neither does what is heard: output may come after its process. */
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
