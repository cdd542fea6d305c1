import { createHash } from 'node:crypto';
import { Cron } from 'croner';
import type { Verdict } from '../lib/settings/values.ts';

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

/** When the runs of one pipeline are due. Every host computes the same times. */
export interface Timetable {
  /**
   * Returns the last tick whose run is due at `now`, if it is later than the tick `decided`; otherwise null.
   */
  due(decided: number, now: number): Due | null;
  /** Returns the first tick after the tick `decided`, or null if there is none. */
  following(decided: number): Due | null;
  /** Returns the first tick whose run is due after `now`, or null if there is none. */
  next(now: number): Due | null;
  /** Returns the last tick at or before `at`, or null if there is none. */
  upTo(at: number): number | null;
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

/** Identifies the ticks of a schedule. Jitter and catch-up do not change them. */
export function nameOfTicks({ cron, timezone }: Pick<ScheduleConfig, 'cron' | 'timezone'>): string {
  return `${cron} ${timezone}`;
}

/** Hashes the text to a number in [0, 1). */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;
}

/*
 * Cron patterns and time zones: validation, and the instants that a pattern matches. Wraps croner.
 */

/** The ticks of a schedule are the instants that its pattern matches, in milliseconds since 1970. */
export interface Ticks {
  /** Returns the first tick after `at`, or null if there is none. */
  after(at: number): number | null;
  /** Returns the last tick at or before `at`, or null if there is none. */
  upTo(at: number): number | null;
}

const cronAliases = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;
const fiveFields = /^\S+( \S+){4}$/;

/**
 * Parses a cron pattern with five fields (minute, hour, day of month, month, day of week), or a nickname such
 * as `@daily`. A pattern that never matches, such as 30 February, is rejected.
 */
export function parseCron(text: string): Verdict<string> {
  if (!cronAliases.test(text) && !fiveFields.test(text))
    return { ok: false, reason: 'it does not have five fields separated by single spaces' };
  try {
    const first = cronOf(text, 'UTC').nextRun(new Date(0));
    return first === null ? { ok: false, reason: 'it matches no date' } : { ok: true, value: text };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

/** Accepts the IANA names of the time zones that this machine knows. */
export function parseTimeZone(text: string): Verdict<string> {
  // Only newer Node.js releases accept offsets such as +02:00, and offsets have no daylight saving time.
  if (!/^[A-Za-z]/.test(text)) return { ok: false, reason: 'it is not a name such as Europe/Berlin' };
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return { ok: true, value: text };
  } catch {
    return { ok: false, reason: 'there is no such time zone' };
  }
}

/**
 * Returns the ticks of a pattern and a time zone that `parseCron` and `parseTimeZone` accepted.
 *
 * When clocks go forward, a pattern with a single hour and minute ticks at the first instant after the gap.
 * Other patterns skip the ticks in the gap. When clocks go back, a pattern with a single hour and minute
 * ticks once, in the first of the two hours. Other patterns tick in both.
 */
export function ticksOf(pattern: string, timezone: string): Ticks {
  const cron = cronOf(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // croner's previous runs are strictly earlier than the reference time, hence `at + 1`.
    upTo: (at) => cron.previousRuns(1, new Date(at + 1))[0]?.getTime() ?? null,
  };
}

/** Paused and without a callback, so that croner starts no timers. */
function cronOf(pattern: string, timezone: string): Cron {
  return new Cron(pattern, { timezone, mode: '5-part', paused: true });
}

/** croner's message without its class name. */
function reasonOf(error: unknown): string {
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?: |$)/);
  const message = first.replace(/^Cron\w*: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
