interface Waiting {
  share: number;
  admit: () => void;
}

/**
 * Runs work that takes a share of what there is, as soon as that is free. Rejects with the code POOL_TIMEOUT
 * what has waited too long.
 */
export type Gate = <T>(share: number, work: () => Promise<T>) => Promise<T>;

/**
 * A gate of `capacity` shares: work enters in the order of asking, so what needs much is not passed for ever
 * by what needs little.
 */
export function openGate(capacity: number, patienceMs: number): Gate {
  let free = capacity;
  const waiting = new Set<Waiting>();
  const admitNext = (): void => {
    for (const next of waiting) {
      if (next.share > free) return;
      waiting.delete(next);
      free -= next.share;
      next.admit();
    }
  };
  const wait = (share: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const mine: Waiting = {
        share,
        admit: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        waiting.delete(mine);
        reject(Object.assign(new Error('no free connection'), { code: 'POOL_TIMEOUT' }));
        admitNext();
      }, patienceMs);
      waiting.add(mine);
    });
  return async (share, work) => {
    if (waiting.size > 0 || share > free) await wait(share);
    else free -= share;
    try {
      return await work();
    } finally {
      free += share;
      admitNext();
    }
  };
}
