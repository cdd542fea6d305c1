/** Lets callers hold at most so many bytes at once; who asks for more waits its turn. */
export interface ByteBudget {
  /**
   * Waits until there is room, and returns what gives it back. A single request larger than the budget counts
   * as all of it.
   */
  take(bytes: number): Promise<() => void>;
}

export function byteBudget(limit: number): ByteBudget {
  let free = limit;
  const waiting: { bytes: number; go: () => void }[] = [];

  return {
    async take(asked) {
      const bytes = Math.min(asked, limit);
      if (waiting.length === 0 && bytes <= free) free -= bytes;
      else await new Promise<void>((go) => waiting.push({ bytes, go }));
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        free += bytes;
        admit();
      };
    },
  };

  /** In the order of asking, so that a large request is not passed by for ever. */
  function admit(): void {
    for (let first = waiting[0]; first !== undefined && first.bytes <= free; first = waiting[0]) {
      waiting.shift();
      free -= first.bytes;
      first.go();
    }
  }
}
