import type { Clock } from './clock.ts';

/**
 * Asked between two pieces of work by whoever has many of them: when the next one may be done. Undefined: at
 * once.
 */
export type Breathe = () => Promise<void> | undefined;

/** For whoever has the event loop for itself. */
export const breathless: Breathe = () => undefined;

/** How all that work side by side on one event loop share it with those who knock. */
export interface SharedBreath {
  breathe: Breathe;
  /** To be called for each connection that was accepted. */
  onAccepted: () => void;
}

const sliceMs = 1;
/** So many turns in a row are left to new connections. */
const maxTurnsLeft = 16;

/**
 * One `Breathe` for all that work side by side on one event loop: together they work for about a millisecond
 * in each of its turns, in the order in which they asked. Whoever waits for the loop waits for whole turns,
 * and a new connection for many of them, since Node.js accepts one a turn. So a turn that has accepted one is
 * followed by the next at once: as long as connections come, they are accepted before anything else is done,
 * for some turns at most.
 */
export function sharedBreath({ monotonic }: Pick<Clock, 'monotonic'>): SharedBreath {
  const waiting: (() => void)[] = [];
  let until = -Infinity;
  let hasAccepted = false;
  let turnsLeft = 0;
  const turn = (): void => {
    turnsLeft = hasAccepted && turnsLeft < maxTurnsLeft ? turnsLeft + 1 : 0;
    hasAccepted = false;
    if (turnsLeft > 0) {
      setImmediate(turn);
      return;
    }
    until = monotonic() + sliceMs;
    next();
  };
  const next = (): void => {
    waiting.shift()?.();
    if (waiting.length === 0) return;
    // After the piece of work that this one does; it may be the last that it has for now.
    queueMicrotask(() => {
      if (monotonic() < until) next();
      else setImmediate(turn);
    });
  };
  return {
    breathe: () => {
      if (monotonic() < until) return undefined;
      return new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length === 1) setImmediate(turn);
      });
    },
    onAccepted: () => void (hasAccepted = true),
  };
}
