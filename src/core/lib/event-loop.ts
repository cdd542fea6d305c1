import type { Clock } from './clock.ts';

/**
 * Lets the event loop run between two pieces of work. Wait for the promise before you continue, or continue
 * right away if there is none.
 */
export type YieldToEventLoop = () => Promise<void> | undefined;

/** Never lets the event loop run. For code that has a thread to itself. */
export const neverYield: YieldToEventLoop = () => undefined;

/** Makes sure that background work does not hold up new connections. */
export interface SharedEventLoop {
  yieldToEventLoop: YieldToEventLoop;
  onAccepted: () => void;
}

const sliceMs = 1;
/** How many turns of the event loop in a row can be reserved for accepting connections. */
const maxSkippedTurns = 16;

/**
 * Returns one `YieldToEventLoop` for all the background work on an event loop. All of it together gets about
 * a millisecond per turn of the loop, first come, first served. Node.js accepts only one connection per turn,
 * so it might take many turns until a new connection is accepted. Therefore, if a connection was accepted in
 * one turn, there is no work in the next, up to `maxSkippedTurns` times in a row.
 */
export function sharedEventLoop({ monotonic }: Pick<Clock, 'monotonic'>): SharedEventLoop {
  const waiting: (() => void)[] = [];
  let until = -Infinity;
  let hasAccepted = false;
  let skippedTurns = 0;
  const turn = (): void => {
    skippedTurns = hasAccepted && skippedTurns < maxSkippedTurns ? skippedTurns + 1 : 0;
    hasAccepted = false;
    if (skippedTurns > 0) {
      setImmediate(turn);
      return;
    }
    until = monotonic() + sliceMs;
    next();
  };
  const next = (): void => {
    waiting.shift()?.();
    if (waiting.length === 0) return;
    // This runs after the piece of work that was just released, which may be the caller's last one for now.
    queueMicrotask(() => {
      if (monotonic() < until) next();
      else setImmediate(turn);
    });
  };
  return {
    yieldToEventLoop: () => {
      if (monotonic() < until) return undefined;
      return new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length === 1) setImmediate(turn);
      });
    },
    onAccepted: () => void (hasAccepted = true),
  };
}
