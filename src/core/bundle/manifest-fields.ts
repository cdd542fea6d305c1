/** A verdict on one field: the value it means, or why it means none. */
export type FieldVerdict<T> = { ok: true; value: T } | { ok: false; reason: string };

const timestamp = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const mediaType = new RegExp(
  `^${token}/${token}(?:[ \\t]*;[ \\t]*${token}=(?:${token}|"(?:[^"\\\\\\x00-\\x1f\\x7f]|\\\\[\\x20-\\x7e])*"))*$`,
);
const kindForm = /^[a-z][a-z0-9_]{0,31}$/;
const maxMediaTypeLength = 255;

/** RFC 3339 with a zone, and a moment that exists. Fractions of a second count to the millisecond. Pure. */
export function parseCreated(text: string): FieldVerdict<Date> {
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
  const milliseconds = Math.floor(Number(match[7] ?? 0) * 1000);
  const [zoneHours, zoneMinutes] = [Number(match[9] ?? 0), Number(match[10] ?? 0)];
  if (month < 1 || month > 12) return refuse(`has the month ${month}`);
  if (day < 1 || day > daysIn(year, month))
    return refuse(`has the day ${day}, which that month does not have`);
  if (hour > 23 || minute > 59 || second > 59)
    return refuse('has a time of day that does not exist (hours to 23, minutes and seconds to 59)');
  if (zoneHours > 23 || zoneMinutes > 59) return refuse('has a zone that does not exist');
  const moment = new Date(0);
  moment.setUTCFullYear(year, month - 1, day);
  moment.setUTCHours(hour, minute, second, milliseconds);
  const offset = (match[8] === '-' ? -1 : 1) * (zoneHours * 60 + zoneMinutes) * 60_000;
  const created = new Date(moment.getTime() - offset);
  const utcYear = created.getUTCFullYear();
  if (utcYear < 0 || utcYear > 9999) return refuse('lies outside of the years 0000 to 9999 in UTC');
  return { ok: true, value: created };
}

/** RFC 9110: a type, a subtype and parameters. Pure. */
export function parseMediaType(text: string): FieldVerdict<string> {
  if (text.length > maxMediaTypeLength) return refuse(`is longer than ${maxMediaTypeLength} characters`);
  return mediaType.test(text)
    ? { ok: true, value: text }
    : refuse('is not a media type, like application/json');
}

export function parseKind(text: string): FieldVerdict<string> {
  if (kindForm.test(text)) return { ok: true, value: text };
  return refuse('is not a kind: a lower-case letter, then up to 31 lower-case letters, digits or "_"');
}

/** `20261120T010203Z`. */
export function compactTimestamp(moment: Date): string {
  return `${moment.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

function daysIn(year: number, month: number): number {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;
}
