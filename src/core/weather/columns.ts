import { timestamp } from 'drizzle-orm/pg-core';

/** A column of an instant: `timestamptz`, read as a `Date`. */
export function instantColumn(name: string) {
  return timestamp(name, { withTimezone: true, mode: 'date' });
}
