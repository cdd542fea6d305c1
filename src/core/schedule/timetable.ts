import { createHash } from 'node:crypto';
import { ticksOf } from './cron.ts';

/** When a pipeline runs by itself, after parsing. */
export interface ScheduleConfig {
  /** Pattern of cron in five fields, or a nickname. */
  cron: string;
  /** IANA name. */
  timezone: string;
  /** What becomes of ticks that nobody could start: nothing, or one run for all of them. */
  catchUp: 'none' | 'once';
  /** By how much, at most, a run begins later than its tick. */
  jitterMs: number;
}

/** One tick, and when its run is due: as much later as the jitter has drawn. Milliseconds since 1970. */
export interface Due {
  tick: number;
  at: number;
}

/** When the runs of one pipeline are due. Every host computes the same. Pure. */
export interface Timetable {
  /** The last tick whose run is due at `now`, if it is later than the tick `decided`; otherwise null. */
  due(decided: number, now: number): Due | null;
  /** The first tick that is later than the tick `decided`; null if there is none. */
  following(decided: number): Due | null;
  /** The first tick whose run is due later than `now`; null if there is none. */
  next(now: number): Due | null;
  /** The last tick that is not later than `at`; null if there is none. */
  upTo(at: number): number | null;
  /** The first tick that is later than `at`; null if there is none. */
  after(at: number): number | null;
}

export function timetable(
  pipelineId: string,
  { cron, timezone, jitterMs }: Pick<ScheduleConfig, 'cron' | 'timezone' | 'jitterMs'>,
): Timetable {
  const ticks = ticksOf(cron, timezone);
  const dueAt = (tick: number): number => {
    if (jitterMs === 0) return tick;
    // Never later than the next tick: runs keep the order of their ticks.
    const gapMs = (ticks.after(tick) ?? Infinity) - tick;
    return tick + Math.floor(drawn(`${pipelineId} ${tick}`) * Math.min(jitterMs, gapMs));
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

/** The same schedule under another jitter or catch-up has the same ticks. Pure. */
export function nameOfTicks({ cron, timezone }: Pick<ScheduleConfig, 'cron' | 'timezone'>): string {
  return `${cron} ${timezone}`;
}

/** A number from 0 to below 1, the same for the same text. */
function drawn(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;
}
