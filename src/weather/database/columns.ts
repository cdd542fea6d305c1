import { type AnyColumn, type SQL, sql } from 'drizzle-orm';
import { customType } from 'drizzle-orm/pg-core';

const instantType = customType<{ data: Date; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (date) => date.toISOString(),
  fromDriver: dateOf,
});

/**
 * Declares a `timestamptz` column that is read as a `Date`. Values outside the range of `Date`, such as
 * `infinity` or years BC, become an invalid date, which is caught when the row is validated.
 */
export function instantColumn(name: string) {
  return instantType(name);
}

/** The range of plausible times for weather records. Anything else is a placeholder or a mistake. */
export const earliest = new Date('1800-01-01T00:00:00Z');
export const latest = new Date('2200-01-01T00:00:00Z');

/** Returns an SQL expression for the column that is null if the time is not plausible. */
export function saneInstant(column: AnyColumn): SQL {
  return sql`case when ${column} >= '1800-01-01Z'::timestamptz and ${column} < '2200-01-01Z'::timestamptz then ${column} end`;
}

function dateOf(value: string | Date): Date {
  if (value instanceof Date) return value;
  return /^\d{4}-/.test(value) && !value.endsWith('BC') ? new Date(value) : new Date(NaN);
}

/** The maximum time by which a feeder's clock may be ahead of ours, in milliseconds. */
const aheadMs = 60 * 60_000;

/** Returns the latest plausible time for something that has been measured, issued or fetched. */
export function presentUntil(now: Date): Date {
  return new Date(now.getTime() + aheadMs);
}

/** Selects some rows of an ordered query. If `until` is set, rows with a later time are skipped. */
export interface RowRange {
  limit: number;
  offset: number;
  until: Date | null;
}

/**
 * Returns the first row that is valid, or null. Since that is usually the very first row, tries it alone, and
 * only reads more if it is invalid, which also reports the invalid rows. In the end, skips rows with times in
 * the future. They are the most common mistake, and would otherwise come first for years.
 */
export async function firstClean<Row, Clean>(
  now: Date,
  page: (page: RowRange) => PromiseLike<Row[]>,
  clean: (row: Row) => Clean | null,
): Promise<Clean | null> {
  const pages: RowRange[] = [
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
