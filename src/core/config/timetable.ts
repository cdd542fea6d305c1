import { createHash } from 'node:crypto';
import { Cron } from 'croner';
import type { Verdict } from '../lib/settings/values.ts';

/*
 * Computes when scheduled runs are due. The scheduler, the API and the configuration use it.
 */

/** A pipeline's parsed schedule. */
export interface ScheduleConfig {
  /** A cron pattern with five fields, or a nickname such as `@daily`. */
  cron: string;
  /** An IANA time zone name. */
  timezone: string;
  /**
   * How to handle ticks that were missed because no daemon was running: `none` skips them, `once` starts a
   * single run for all of them.
   */
  catchUp: 'none' | 'once';
  /** The maximum delay of a run after its tick, in milliseconds. */
  jitterMs: number;
}

/** A tick and the time when its run is due, which is later by a random jitter. In milliseconds since 1970. */
export interface Due {
  tick: number;
  at: number;
}

/** Computes when a pipeline's runs are due. Every host computes the same times. */
export interface Timetable {
  /** Returns the last tick whose run is due at `now`, or null if it is not later than the tick `decided`. */
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
    // Never delay a run past the next tick, so that runs stay in the order of their ticks.
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

/** Returns an id for a schedule's ticks. Jitter and catch-up do not affect it. */
export function nameOfTicks({ cron, timezone }: Pick<ScheduleConfig, 'cron' | 'timezone'>): string {
  return `${cron} ${timezone}`;
}

/** Hashes the text to a number in [0, 1). */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6) / 2 ** 48;
}

/*
 * Validates cron patterns and time zones, and computes the instants that a pattern matches. Wraps croner.
 */

/** A schedule's ticks: the instants that its pattern matches, in milliseconds since 1970. */
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
 * as `@daily`. Rejects patterns that never match, such as 30 February.
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

/** Accepts the IANA names of time zones that are known on this machine. */
export function parseTimeZone(text: string): Verdict<string> {
  // Offsets such as +02:00 do not observe daylight saving time, and only newer Node.js releases accept them.
  if (!/^[A-Za-z]/.test(text)) return { ok: false, reason: 'it is not a name such as Europe/Berlin' };
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return { ok: true, value: text };
  } catch {
    return { ok: false, reason: 'there is no such time zone' };
  }
}

/**
 * Returns the ticks for a pattern and a time zone accepted by `parseCron` and `parseTimeZone`.
 *
 * When clocks go forward, a pattern with a single hour and minute ticks at the first instant after the gap.
 * Other patterns skip ticks in the gap. When clocks go back, a pattern with a single hour and minute ticks
 * only once, in the first of the two hours. Other patterns tick in both.
 */
export function ticksOf(pattern: string, timezone: string): Ticks {
  const cron = cronOf(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // croner's previous runs are strictly before the reference time, hence `at + 1`.
    upTo: (at) => cron.previousRuns(1, new Date(at + 1))[0]?.getTime() ?? null,
  };
}

/** Creates the pattern paused and without a callback, so that croner starts no timers. */
function cronOf(pattern: string, timezone: string): Cron {
  return new Cron(pattern, { timezone, mode: '5-part', paused: true });
}

/** Returns croner's message without its class name. */
function reasonOf(error: unknown): string {
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?: |$)/);
  const message = first.replace(/^Cron\w*: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
