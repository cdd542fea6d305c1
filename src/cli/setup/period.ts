import { systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { dateOf, parseInstant } from '../../core/lib/instant.ts';
import { parseDuration } from '../../core/lib/settings/sizes-and-durations.ts';

/**
 * Parses the option `--since` or `--until`: a duration before now, `yesterday`, `today`, a date or RFC 3339.
 * Days are those of the local time zone: `--since` means their first moment, `--until` their last. Returns
 * null if the option is missing. Throws `usage` if it is invalid.
 */
export function timeOf(
  option: 'since' | 'until',
  text: string | undefined,
  now: Date = systemClock.now(),
): Date | null {
  if (text === undefined) return null;
  const day = dayOf(text, now);
  if (day !== null) return option === 'since' ? day : new Date(dayAfter(day, 1).getTime() - 1);
  const ms = parseDuration(text);
  if (ms !== undefined) return new Date(now.getTime() - ms);
  const verdict = parseInstant(text);
  if (verdict.ok) return dateOf(verdict.value);
  throw new WaybillError('usage', `--${option}: "${text}" is not a time`, {
    hint: 'write it like 24h, 7d, yesterday, 2026-11-20 or 2026-11-20T08:00:00Z',
  });
}

/** Returns the first moment of a day, or null if the text does not name one. */
function dayOf(text: string, now: Date): Date | null {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  if (text === 'today') return today;
  if (text === 'yesterday') return dayAfter(today, -1);
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
  const day = new Date(Number(year), Number(month) - 1, Number(date));
  return day.getMonth() === Number(month) - 1 && day.getDate() === Number(date) ? day : null;
}

/** Days can have 23 or 25 hours. */
function dayAfter(day: Date, days: number): Date {
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days);
}
