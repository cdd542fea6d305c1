import type { Instant } from './instant.ts';

const months = 'January February March April May June July August September October November December'.split(
  ' ',
);

/** `20 November 2026, 01:02 UTC`: the same on every machine, whatever its language and time zone. Pure. */
export function instantForPeople(instant: Instant): string {
  const [date = '', time = ''] = instant.split('T');
  const [year, month, day] = date.split('-');
  return `${Number(day)} ${months[Number(month) - 1] ?? ''} ${year ?? ''}, ${time.slice(0, 5)} UTC`;
}
