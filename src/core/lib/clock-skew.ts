import type { Clock } from './clock.ts';

/**
 * How far apart we expect the clocks of two machines to be. A stored time that is further in the future is
 * not trusted.
 */
export const maxClockSkewMs = 300_000;

/**
 * Reports whether a stored time is in the future, which means that the clock was wrong when it was stored.
 */
export function isFuture(timeMs: number, clock: Pick<Clock, 'now'>): boolean {
  return timeMs > clock.now().getTime() + maxClockSkewMs;
}
