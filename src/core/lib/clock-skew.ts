import type { Clock } from './clock.ts';

/**
 * The maximum difference between the clocks of different machines. A stored time further in the future is not
 * trusted.
 */
export const maxClockSkewMs = 300_000;

/**
 * Returns true if a stored time is in the future, which means that the clock was ahead when it was stored.
 */
export function isFuture(timeMs: number, clock: Pick<Clock, 'now'>): boolean {
  return timeMs > clock.now().getTime() + maxClockSkewMs;
}
