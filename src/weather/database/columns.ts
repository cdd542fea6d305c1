import { type AnyColumn, type SQL, sql } from 'drizzle-orm';
import { customType } from 'drizzle-orm/pg-core';

const instantType = customType<{ data: Date; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (date) => date.toISOString(),
  fromDriver: dateOf,
});

/**
 * Declares a column that holds an instant (`timestamptz`), read as a `Date`. Values that a `Date` cannot hold
 * (`infinity`, years BC) become an invalid date, which the row's checks detect.
 */
export function instantColumn(name: string) {
  return instantType(name);
}

/** The range of plausible instants in weather records. Other values are placeholders or mistakes. */
export const earliest = new Date('1800-01-01T00:00:00Z');
export const latest = new Date('2200-01-01T00:00:00Z');

/** Returns the column as SQL that is null for an implausible instant. */
export function saneInstant(column: AnyColumn): SQL {
  return sql`case when ${column} >= '1800-01-01Z'::timestamptz and ${column} < '2200-01-01Z'::timestamptz then ${column} end`;
}

function dateOf(value: string | Date): Date {
  if (value instanceof Date) return value;
  return /^\d{4}-/.test(value) && !value.endsWith('BC') ? new Date(value) : new Date(NaN);
}

/** How far a feeder's clock may be ahead of this one, in milliseconds. */
const aheadMs = 60 * 60_000;

/** Returns the latest instant at which something can have been measured, issued or fetched. */
export function presentUntil(now: Date): Date {
  return new Date(now.getTime() + aheadMs);
}

/** Rows in the order of the query. `until` limits the instant by which they are ordered. */
export interface Page {
  limit: number;
  offset: number;
  until: Date | null;
}

/**
 * Returns the first clean row, or null. The first row is nearly always clean, so it is read alone. If it is
 * not, a page follows, so that bad rows are noted. The last attempt reads only rows up to the present,
 * because an instant far in the future is the most common fault, and such rows would stay first for years.
 */
export async function firstClean<Row, Clean>(
  now: Date,
  page: (page: Page) => PromiseLike<Row[]>,
  clean: (row: Row) => Clean | null,
): Promise<Clean | null> {
  const pages: Page[] = [
    { limit: 1, offset: 0, until: null },
    { limit: 50, offset: 1, until: null },
    { limit: 500, offset: 0, until: presentUntil(now) },
  ];
  for (const each of pages) {
    const rows = await page(each);
    for (const row of rows) {
      const found = clean(row);
      if (found !== null) return found;
    }
    if (each.until === null && rows.length < each.limit) return null;
  }
  return null;
}
