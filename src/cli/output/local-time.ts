/** `2026-11-26 11:33 CET`: a time of a document (RFC 3339) for people, in their time zone. */
export function localTime(time: string): string {
  const at = new Date(time);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())} ${zoneOf(at)}`;
}

/** The short name of the local time zone at that time, such as `CET`, or `GMT+5:30` if it has none. */
function zoneOf(at: Date): string {
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts(at);
  return parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'UTC';
}
