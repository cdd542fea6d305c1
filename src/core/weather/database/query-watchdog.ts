import type { Clock, Timer } from '../../clock.ts';

interface Watched {
  until: number;
  reject: (error: unknown) => void;
}

/** Settles as the work does, or rejects with the code ETIMEDOUT if that takes too long. */
export type Watchdog = <T>(work: Promise<T>) => Promise<T>;

/**
 * Watches over queries with one timer for all of them: a timer for each would cost too much of a short query.
 * `onLate` is called once for all that are late.
 */
export function openWatchdog(withinMs: number, clock: Clock, onLate: () => void): Watchdog {
  const watched = new Set<Watched>();
  let timer: Timer | undefined;
  const look = (): void => {
    timer = undefined;
    const now = clock.monotonic();
    const late = [...watched].filter(({ until }) => until <= now);
    if (late.length > 0) onLate();
    for (const each of late) {
      watched.delete(each);
      each.reject(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' }));
    }
    const [next] = watched;
    if (next !== undefined) lookIn(next.until - now);
  };
  const lookIn = (milliseconds: number): void => {
    timer ??= clock.timeout(Math.ceil(milliseconds), look, { unref: true });
  };
  return (work) =>
    new Promise((resolve, reject) => {
      const mine = { until: clock.monotonic() + withinMs, reject };
      watched.add(mine);
      lookIn(withinMs);
      work.then(
        (value) => {
          watched.delete(mine);
          resolve(value);
        },
        (error: unknown) => {
          watched.delete(mine);
          mine.reject(error);
        },
      );
    });
}
