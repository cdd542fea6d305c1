import type { Clock, Timer } from '../../core/lib/clock.ts';

interface Watched {
  since: number;
  until: number;
  /** Null once the caller was told; the work may still end. */
  reject: ((error: unknown) => void) | null;
}

/** Settles as the work does, or rejects with the code ETIMEDOUT if that takes too long. */
export type Watchdog = <T>(work: Promise<T>) => Promise<T>;

/**
 * Watches over queries with one timer for all of them: a timer for each would cost too much of a short query.
 * `onDead` is called if nothing at all was answered while a query was late, or if a late one is not answered
 * within the same time again: slow answers are no reason to give up a line, but none is.
 */
export function openWatchdog(withinMs: number, clock: Clock, onDead: () => void): Watchdog {
  const watched = new Set<Watched>();
  let timer: Timer | undefined;
  let answeredAt = -Infinity;
  const look = (): void => {
    timer = undefined;
    const now = clock.monotonic();
    const late = [...watched].filter(({ until }) => until <= now);
    const isDead = late.some(({ since, reject }) => reject === null || answeredAt < since);
    for (const each of late) {
      const { reject } = each;
      if (isDead || reject === null) watched.delete(each);
      each.until = now + withinMs;
      each.reject = null;
      reject?.(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' }));
    }
    if (isDead) onDead();
    const next = Math.min(...[...watched].map(({ until }) => until));
    if (next < Infinity) lookIn(next - now);
  };
  const lookIn = (milliseconds: number): void => {
    timer ??= clock.timeout(Math.ceil(milliseconds), look, { unref: true });
  };
  return (work) =>
    new Promise((resolve, reject) => {
      const since = clock.monotonic();
      const mine: Watched = { since, until: since + withinMs, reject };
      watched.add(mine);
      lookIn(withinMs);
      const settled = (): void => {
        watched.delete(mine);
        answeredAt = clock.monotonic();
      };
      work.then(
        (value) => {
          settled();
          resolve(value);
        },
        (error: unknown) => {
          // Who got no connection says nothing of the line.
          if (neverSent(error)) watched.delete(mine);
          else settled();
          mine.reject?.(error);
        },
      );
    });
}

function neverSent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('POOL_');
}
