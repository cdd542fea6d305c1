import { stringify } from 'csv-stringify/sync';
import type { WeatherTable } from '../table.ts';
import { converterOf, type UnitSystem } from '../units.ts';

/**
 * A table as CSV (RFC 4180): lines end with CRLF, the first has the names of the columns, with the unit in
 * parentheses if they have one; what is unknown is empty. No record: the names alone. A text that a
 * spreadsheet would run as a formula (it begins with = + - @, a tab or a carriage return) gets an apostrophe
 * before it, as OWASP says; numbers stay as they are. Pure.
 */
export function renderCsv(table: WeatherTable, data: object | null, system: UnitSystem): string {
  const { units } = converterOf(system);
  const names = table.columns.map(({ name, quantity }) =>
    quantity === undefined ? name : `${name} (${units[quantity]})`,
  );
  return stringify([names, ...(data === null ? [] : table.rows(data))], {
    record_delimiter: 'windows',
    escape_formulas: true,
    cast: { boolean: String },
  });
}
