declare const instantBrand: unique symbol;
/**
 * An instant with all the digits that were written: RFC 3339 in UTC, with a fraction of at least three digits
 * and no trailing zeros beyond those, like `2026-11-20T01:02:03.000Z`. Equal instants are equal texts. (A
 * `Date` would truncate the fraction to milliseconds.) Only `parseInstant` creates instants.
 */
export type Instant = string & { readonly [instantBrand]: true };

type InstantVerdict = { ok: true; value: Instant } | { ok: false; reason: string };

const timestamp = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** The length is limited because fractions are kept unchanged, also in catalogs and events. */
const maxFractionDigits = 64;

/**
 * Parses an RFC 3339 time with a zone. The date and time must exist. All digits of the fraction are
 * significant.
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
  const [zoneHours, zoneMinutes] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
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
 * Returns a negative number if `a` is earlier than `b`, 0 if they are equal, and a positive number if it is
 * later.
 */
export function compareInstants(a: Instant, b: Instant): number {
  // Remove the Z, which sorts after digits. The rest sorts as text.
  const [first, second] = [a.slice(0, -1), b.slice(0, -1)];
  return first < second ? -1 : first > second ? 1 : 0;
}

/** Converts an instant to a `Date`, truncated to milliseconds. */
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
 * Formats an instant like `20 November 2026, 01:02 UTC`, independent of the machine's language and time zone.
 */
export function instantForPeople(instant: Instant): string {
  const [date = '', time = ''] = instant.split('T');
  const [year, month, day] = date.split('-');
  return `${Number(day)} ${months[Number(month) - 1] ?? ''} ${year ?? ''}, ${time.slice(0, 5)} UTC`;
}
