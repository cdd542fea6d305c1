import type { Clock } from './clock.ts';

/**
 * Asked between two pieces of work by whoever has many of them: when the next one may be done. Undefined: at
 * once.
 */
export type Breathe = () => Promise<void> | undefined;

/** For whoever has the event loop for itself. */
export const breathless: Breathe = () => undefined;

const sliceMs = 1;

/**
 * One `Breathe` for all that work side by side on one event loop: together they work for about a millisecond
 * in each of its turns, one after another in the order in which they asked. Whoever waits for the loop waits
 * for whole turns, and a new connection for many of them, since Node.js accepts one a turn.
 */
export function sharedBreath({ monotonic }: Pick<Clock, 'monotonic'>): Breathe {
  const waiting: (() => void)[] = [];
  let until = -Infinity;
  const next = (): void => {
    until = monotonic() + sliceMs;
    waiting.shift()?.();
    if (waiting.length > 0) setImmediate(next);
  };
  return () => {
    if (monotonic() < until) return undefined;
    return new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) setImmediate(next);
    });
  };
}
