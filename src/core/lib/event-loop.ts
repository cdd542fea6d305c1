import type { Clock } from './clock.ts';

/**
 * Yields to the event loop between pieces of work. The promise resolves when the next piece may start. If
 * undefined is returned, it may start immediately.
 */
export type YieldToEventLoop = () => Promise<void> | undefined;

/** Never yields. For code that has the event loop to itself. */
export const neverYield: YieldToEventLoop = () => undefined;

/** Shares the event loop between background work and new connections. */
export interface SharedEventLoop {
  yieldToEventLoop: YieldToEventLoop;
  /** Must be called for each accepted connection. */
  onAccepted: () => void;
}

const sliceMs = 1;
/** The maximum number of consecutive event loop turns that only accept connections. */
const maxSkippedTurns = 16;

/**
 * Returns one `YieldToEventLoop` for all background work on an event loop. Its users share about a
 * millisecond per turn of the loop, in the order of their calls. Node.js accepts one connection per turn, so
 * a new connection may wait for many turns. Therefore, a turn that accepted one is followed by a turn without
 * work, up to `maxSkippedTurns` times in a row.
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
    // Runs after the current user's piece of work, which may be its last one for now.
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
