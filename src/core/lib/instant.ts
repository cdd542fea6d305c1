declare const instantBrand: unique symbol;
/**
 * A point in time as an RFC 3339 string in UTC, such as `2026-11-20T01:02:03.000Z`. The fraction has at least
 * three digits, and no trailing zeros beyond those. Unlike a `Date`, which only has milliseconds, it keeps
 * all digits that were written. Two instants are equal if their strings are. The only way to get one is
 * `parseInstant`.
 */
export type Instant = string & { readonly [instantBrand]: true };

type InstantVerdict = { ok: true; value: Instant } | { ok: false; reason: string };

const timestamp = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** There has to be a limit, since the fraction is copied to catalogs and events in full. */
const maxFractionDigits = 64;

/**
 * Parses an RFC 3339 time with a time zone. It must be a date and time that exists. Every digit of the
 * fraction counts.
 */
export function parseInstant(text: string): InstantVerdict {
  const match = timestamp.exec(text);
  if (match === null) return refuse('is not an RFC 3339 timestamp with a zone, like 2026-11-20T01:02:03Z');
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const fraction = (match[7] ?? '').replace(/0+$/, '').padEnd(3, '0');
  const zoneHours = Number(match[9] ?? 0);
  const zoneMinutes = Number(match[10] ?? 0);
  if (month < 1 || month > 12) return refuse(`has the month ${month}`);
  if (day < 1 || day > daysIn(year, month))
    return refuse(`has the day ${day}, which that month does not have`);
  if (hour > 23 || minute > 59 || second > 59)
    return refuse('has a time of day that does not exist (hours to 23, minutes and seconds to 59)');
  if (zoneHours > 23 || zoneMinutes > 59) return refuse('has a zone that does not exist');
  if (fraction.length > maxFractionDigits)
    return refuse(`has more than ${maxFractionDigits} digits after the point`);
  const moment = new Date(0);
  moment.setUTCFullYear(year, month - 1, day);
  moment.setUTCHours(hour, minute, second);
  const offset = (match[8] === '-' ? -1 : 1) * (zoneHours * 60 + zoneMinutes) * 60_000;
  const utc = new Date(moment.getTime() - offset);
  if (utc.getUTCFullYear() < 0 || utc.getUTCFullYear() > 9999)
    return refuse('lies outside of the years 0000 to 9999 in UTC');
  return { ok: true, value: `${utc.toISOString().slice(0, 19)}.${fraction}Z` as Instant };
}

/**
 * Returns a negative number if `a` is before `b`, a positive number if it is after `b`, and 0 if they are
 * equal.
 */
export function compareInstants(a: Instant, b: Instant): number {
  // Without the Z, which sorts after digits, string order is the same as time order.
  const first = a.slice(0, -1);
  const second = b.slice(0, -1);
  return first < second ? -1 : first > second ? 1 : 0;
}

/** Returns an instant as a `Date`. The fraction is cut off after milliseconds. */
export function dateOf(instant: Instant): Date {
  return new Date(`${instant.slice(0, 23)}Z`);
}

function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

function daysIn(year: number, month: number): number {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;
}

const months = 'January February March April May June July August September October November December'.split(
  ' ',
);

/**
 * Formats an instant like `20 November 2026, 01:02 UTC`, no matter what language and time zone the machine
 * uses.
 */
export function instantForPeople(instant: Instant): string {
  const [date = '', time = ''] = instant.split('T');
  const [year, month, day] = date.split('-');
  return `${Number(day)} ${months[Number(month) - 1] ?? ''} ${year ?? ''}, ${time.slice(0, 5)} UTC`;
}
