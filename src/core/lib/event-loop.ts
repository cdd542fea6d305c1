import type { Clock } from './clock.ts';

/**
 * Yields to the event loop between two pieces of work. Resolves when the next piece may begin; undefined
 * means immediately.
 */
export type YieldToEventLoop = () => Promise<void> | undefined;

/** Never yields: for code that has the event loop to itself. */
export const neverYield: YieldToEventLoop = () => undefined;

/** Shares the event loop between background work and new connections. */
export interface SharedEventLoop {
  yieldToEventLoop: YieldToEventLoop;
  /** Must be called for each accepted connection. */
  onAccepted: () => void;
}

const sliceMs = 1;
/** The maximum number of consecutive turns that accept connections only. */
const maxSkippedTurns = 16;

/**
 * One `YieldToEventLoop` for all background work on one event loop. Together its users work for about a
 * millisecond in each turn of the loop, in the order of their calls. Node.js accepts one connection a turn,
 * so a new connection may wait for many turns. A turn that has accepted one is therefore followed by a turn
 * without work, up to `maxSkippedTurns` times in a row.
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
    // After the piece of work that this one does; it may be the last that it has for now.
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
