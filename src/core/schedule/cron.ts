import { Cron } from 'croner';
import type { Verdict } from '../settings/values.ts';

/** The ticks of a schedule: the instants that its pattern names, in milliseconds since 1970. */
export interface Ticks {
  /** The first tick that is later than `at`; null if there is none. */
  after(at: number): number | null;
  /** The last tick that is not later than `at`; null if there is none. */
  upTo(at: number): number | null;
}

const nicknames = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;
const fiveFields = /^\S+( \S+){4}$/;

/**
 * A pattern of cron in five fields (minute, hour, day of month, month, day of week), or a nickname such as
 * `@daily`. One that names no instant, such as 30 February, is refused. Pure.
 */
export function parseCron(text: string): Verdict<string> {
  if (!nicknames.test(text) && !fiveFields.test(text))
    return { ok: false, reason: 'it has not five fields with one space between two of them' };
  try {
    const first = cronOf(text, 'UTC').nextRun(new Date(0));
    return first === null ? { ok: false, reason: 'there is no such day' } : { ok: true, value: text };
  } catch (error) {
    return { ok: false, reason: plain(error) };
  }
}

/** The IANA name of a time zone that this machine knows. Pure. */
export function parseTimeZone(text: string): Verdict<string> {
  // Offsets such as +02:00 are known to newer versions of Node.js only, and have no summer time.
  if (!/^[A-Za-z]/.test(text)) return { ok: false, reason: 'it is no name' };
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return { ok: true, value: text };
  } catch {
    return { ok: false, reason: 'there is no such time zone' };
  }
}

/**
 * The ticks of a pattern and a time zone that `parseCron` and `parseTimeZone` have accepted. Where clocks are
 * set forward, a pattern with one hour and one minute ticks at the first instant after the gap, and any other
 * passes over what the gap has swallowed; where they are set back, the first ticks once, at the first of the
 * two, and any other in both hours. Pure.
 */
export function ticksOf(pattern: string, timezone: string): Ticks {
  const cron = cronOf(pattern, timezone);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    // What croner calls previous is earlier than the time that it is asked about.
    upTo: (at) => cron.previousRuns(1, new Date(at + 1))[0]?.getTime() ?? null,
  };
}

/** Paused, and without a function to call: it computes, and has no timers. */
function cronOf(pattern: string, timezone: string): Cron {
  return new Cron(pattern, { timezone, mode: '5-part', paused: true });
}

/** What croner says, without its name. */
function plain(error: unknown): string {
  const [first = ''] = (error instanceof Error ? error.message : String(error)).split(/\.(?: |$)/);
  const message = first.replace(/^Cron\w*: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
