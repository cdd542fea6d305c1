import type { Clock } from './clock.ts';

/** Clocks of different machines may differ by this much. A stored time that is later is not trusted. */
export const maxClockSkewMs = 300_000;

/** Whether a stored time is in the future: the clock was ahead when it was stored. */
export function isFuture(timeMs: number, clock: Pick<Clock, 'now'>): boolean {
  return timeMs > clock.now().getTime() + maxClockSkewMs;
}
