import { createHash } from 'node:crypto';
import { ticksOf } from './cron.ts';

/*
 * Computes when scheduled runs are due. The scheduler, the API and the configuration use it.
 */

/** The schedule of a pipeline, parsed. */
export interface ScheduleConfig {
  /** A cron pattern with five fields, or a nickname such as `@daily`. */
  cron: string;
  /** IANA name. */
  timezone: string;
  /** Ticks missed because no daemon ran: `none` skips them, `once` starts one run for all of them. */
  catchUp: 'none' | 'once';
  /** The maximum delay of a run after its tick, in milliseconds. */
  jitterMs: number;
}

/** A tick and the time its run is due, which is later by a random jitter. Milliseconds since 1970. */
export interface Due {
  tick: number;
  at: number;
}

/** When the runs of one pipeline are due. Every host computes the same times. Pure. */
export interface Timetable {
  /** The last tick whose run is due at `now`, if it is later than the tick `decided`; otherwise null. */
  due(decided: number, now: number): Due | null;
  /** The first tick after the tick `decided`; null if there is none. */
  following(decided: number): Due | null;
  /** The first tick whose run is due after `now`; null if there is none. */
  next(now: number): Due | null;
  /** The last tick at or before `at`; null if there is none. */
  upTo(at: number): number | null;
  /** The first tick after `at`; null if there is none. */
  after(at: number): number | null;
}

export function timetable(
  pipelineId: string,
  { cron, timezone, jitterMs }: Pick<ScheduleConfig, 'cron' | 'timezone' | 'jitterMs'>,
): Timetable {
  const ticks = ticksOf(cron, timezone);
  const dueAt = (tick: number): number => {
    if (jitterMs === 0) return tick;
    // A run is never delayed past the next tick, so that runs keep the order of their ticks.
    const gapMs = (ticks.after(tick) ?? Infinity) - tick;
    return tick + Math.floor(fractionOf(`${pipelineId} ${tick}`) * Math.min(jitterMs, gapMs));
  };
  const dueOf = (tick: number | null): Due | null => (tick === null ? null : { tick, at: dueAt(tick) });
  return {
    ...ticks,
    due: (decided, now) => {
      const last = ticks.upTo(now);
      const tick = last !== null && dueAt(last) > now ? ticks.upTo(last - 1) : last;
      return tick === null || tick <= decided ? null : dueOf(tick);
    },
    following: (decided) => dueOf(ticks.after(decided)),
    next: (now) => {
      const last = ticks.upTo(now);
      return dueOf(last !== null && dueAt(last) > now ? last : ticks.after(now));
    },
  };
}

/** Identifies the ticks of a schedule. Jitter and catch-up do not change them. Pure. */
export function nameOfTicks({ cron, timezone }: Pick<ScheduleConfig, 'cron' | 'timezone'>): string {
  return `${cron} ${timezone}`;
}

/** Hashes the text to a number in [0, 1). */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;
}
