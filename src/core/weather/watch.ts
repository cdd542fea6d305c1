import type { Clock, Timer } from '../clock.ts';

interface Watched {
  until: number;
  reject: (error: unknown) => void;
}

/** Passes on what the work gives, unless that takes too long: then it rejects with the code ETIMEDOUT. */
export type Watch = <T>(work: Promise<T>) => Promise<T>;

/**
 * Watches over work with one timer for all of it, since a timer for each costs too much of a short query.
 * `onLate` is called once for all that is late.
 */
export function openWatch(withinMs: number, clock: Clock, onLate: () => void): Watch {
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
