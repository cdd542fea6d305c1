/** `YYYY-MM-DDTHH:mm:ssZ`, to the second. */
export type Instant = string;

export function instant(date: Date): Instant {
  return `${date.toISOString().slice(0, 19)}Z`;
}

export function instantOrNull(date: Date | null): Instant | null {
  return date === null ? null : instant(date);
}
