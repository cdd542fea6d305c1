/** What bounds the runs of one process, whichever of its queues they come from. */
export interface RunSlots {
  /** False if all are taken: whoever asked is told once one is free. */
  take(): boolean;
  release(): void;
  /** `onFree` is called whenever a slot is free again; each in its turn comes first. */
  onFree(onFree: () => void): void;
}

export function runSlots(most: number): RunSlots {
  const listeners: (() => void)[] = [];
  let taken = 0;
  return {
    take: () => {
      if (taken >= most) return false;
      taken += 1;
      return true;
    },
    release: () => {
      taken -= 1;
      const [first] = listeners;
      for (const listener of [...listeners]) listener();
      if (first !== undefined) listeners.push(...listeners.splice(0, 1));
    },
    onFree: (onFree) => void listeners.push(onFree),
  };
}
