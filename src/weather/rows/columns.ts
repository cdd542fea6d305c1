import { customType } from 'drizzle-orm/pg-core';
import { sql, type AnyColumn, type SQL } from 'drizzle-orm';

const instantType = customType<{ data: Date; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (date) => date.toISOString(),
  fromDriver: dateOf,
});

/**
 * A column of an instant: `timestamptz`, read as a `Date`. What a `Date` cannot hold (`infinity`, years
 * before Christ) is read as an invalid one, which the checks of the row find.
 */
export function instantColumn(name: string) {
  return instantType(name);
}

/** Instants outside are no instants of weather records, but placeholders or mistakes. */
export const earliest = new Date('1800-01-01T00:00:00Z');
export const latest = new Date('2200-01-01T00:00:00Z');

/** The column in SQL, null where its instant is none. */
export function saneInstant(column: AnyColumn): SQL {
  return sql`case when ${column} >= '1800-01-01Z'::timestamptz and ${column} < '2200-01-01Z'::timestamptz then ${column} end`;
}

function dateOf(value: string | Date): Date {
  if (value instanceof Date) return value;
  return /^\d{4}-/.test(value) && !value.endsWith('BC') ? new Date(value) : new Date(NaN);
}
