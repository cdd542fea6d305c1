import { createHash } from 'node:crypto';
import { Cron } from 'croner';
import { errorMessage } from '../lib/errors.ts';
import type { ParsedValue } from '../lib/settings/parse-values.ts';

/*
 * Calculates when scheduled runs are due. Used by the scheduler, the API and the configuration.
 */

export interface ScheduleConfig {
  /** A cron pattern with five fields, or an alias such as `@daily`. */
  cron: string;
  /** The IANA name of a time zone. */
  timezone: string;
  /**
   * How to make up for ticks that were missed while no daemon was running. With `none`, they are skipped;
   * with `once`, there is one run for all of them.
   */
  catchUp: 'none' | 'once';
  /** The longest time that a run may be delayed after its tick, in milliseconds. */
  jitterMs: number;
}

/**
 * A tick, and the time when its run is due. There is a random delay between them. In milliseconds since 1970.
 */
export interface Due {
  tick: number;
  at: number;
}

/** Calculates when the runs of a pipeline are due. The result is the same on every host. */
export interface Timetable {
  /**
   * Returns the last tick whose run is due by `now`. Returns null if that tick is not later than `decided`.
   */
  due(decided: number, now: number): Due | null;
  /** Returns the first tick after `decided`, or null if there is none. */
  following(decided: number): Due | null;
  /** Returns the first tick whose run is due after `now`, or null if there is none. */
  next(now: number): Due | null;
  /** Returns the last tick at or before `at`, or null if there is none. */
  lastAtOrBefore(at: number): number | null;
  /** Returns the first tick after `at`, or null if there is none. */
  after(at: number): number | null;
}

export function timetable(
  pipelineId: string,
  { cron, timezone, jitterMs }: Pick<ScheduleConfig, 'cron' | 'timezone' | 'jitterMs'>,
): Timetable {
  const ticks = ticksOf(cron, timezone);
  const dueAt = (tick: number): number => {
    if (jitterMs === 0) return tick;
    // A run must not be delayed past the next tick, or else runs could overtake each other.
    const gapMs = (ticks.after(tick) ?? Infinity) - tick;
    return tick + Math.floor(fractionOf(`${pipelineId} ${tick}`) * Math.min(jitterMs, gapMs));
  };
  const dueOf = (tick: number | null): Due | null => (tick === null ? null : { tick, at: dueAt(tick) });
  return {
    ...ticks,
    due: (decided, now) => {
      const last = ticks.lastAtOrBefore(now);
      const tick = last !== null && dueAt(last) > now ? ticks.lastAtOrBefore(last - 1) : last;
      return tick === null || tick <= decided ? null : dueOf(tick);
    },
    following: (decided) => dueOf(ticks.after(decided)),
    next: (now) => {
      const last = ticks.lastAtOrBefore(now);
      return dueOf(last !== null && dueAt(last) > now ? last : ticks.after(now));
    },
  };
}

/** Returns an id for the ticks of a schedule. It does not depend on jitter or catch-up. */
export function scheduleId({ cron, timezone }: Pick<ScheduleConfig, 'cron' | 'timezone'>): string {
  return `${cron} ${timezone}`;
}

/** Turns a string into a number in [0, 1) by hashing it. */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;
}

/*
 * Checks cron patterns and time zones, and finds the times that a pattern matches. This is a wrapper around
 * croner.
 */

/** The ticks of a schedule, which are the times that its pattern matches, in milliseconds since 1970. */
export interface Ticks {
  /** Returns the first tick after `at`, or null if there is none. */
  after(at: number): number | null;
  /** Returns the last tick at or before `at`, or null if there is none. */
  lastAtOrBefore(at: number): number | null;
}

const cronAliases = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;
const fiveFields = /^\S+( \S+){4}$/;

/**
 * Parses a cron pattern with five fields (minute, hour, day of month, month, day of week), or an alias such
 * as `@daily`. Patterns that never match, such as February 30, are refused.
 */
export function parseCron(text: string): ParsedValue<string> {
  if (!cronAliases.test(text) && !fiveFields.test(text))
    return { ok: false, reason: 'it does not have five fields separated by single spaces' };
  try {
    const first = cronOf(text, 'UTC').nextRun(new Date(0));
    return first === null ? { ok: false, reason: 'it matches no date' } : { ok: true, value: text };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

/** Accepts the IANA name of a time zone, provided that this machine knows it. */
export function parseTimeZone(text: string): ParsedValue<string> {
  // The default. Loading the data of the time zones takes a tenth of the time of a run with nothing to do.
  if (text === 'UTC') return { ok: true, value: text };
  // An offset such as +02:00 has no daylight saving time. Besides, only newer releases of Node.js accept it.
  if (!/^[A-Za-z]/.test(text)) return { ok: false, reason: 'it is not a name such as Europe/Berlin' };
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return { ok: true, value: text };
  } catch {
    return { ok: false, reason: 'there is no such time zone' };
  }
}

/**
 * Returns the ticks of a schedule. `parseCron` and `parseTimeZone` must have accepted the arguments.
 *
 * If clocks go forward, a pattern with a single hour and minute has its tick at the first moment after the
 * gap. Other patterns have no ticks in the gap. If clocks go back, a pattern with a single hour and minute
 * has only one tick, in the first of the two hours. Other patterns have ticks in both.
 */
export function ticksOf(pattern: string, timezone: string): Ticks {
  const cron = cronOf(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // croner only looks at times before this one, so add 1.
    lastAtOrBefore: (at) => cron.previousRuns(1, new Date(at + 1))[0]?.getTime() ?? null,
  };
}

/** Creates the pattern without a callback and paused, so that croner does not start any timers. */
function cronOf(pattern: string, timezone: string): Cron {
  return new Cron(pattern, { timezone, mode: '5-part', paused: true });
}

/** Returns the message from croner without the name of the class. */
function reasonOf(error: unknown): string {
  const [first = ''] = errorMessage(error).split(/\.(?: |$)/);
  const message = first.replace(/^Cron\w*: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
