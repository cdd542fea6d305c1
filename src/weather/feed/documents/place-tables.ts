import { CsvError, parse } from 'csv-parse/sync';
import { quoted } from '../../../core/lib/text.ts';
import { timeZoneAt } from '../../places/position.ts';
import { placeKeys } from './places.ts';
import { BrokenDocument, type Loadable, NothingToLoad, type PlaceTable, type Row, textOf } from './rows.ts';

/**
 * Reads places from a CSV file (RFC 4180) whose first line contains column names from the contract. It is
 * meant for places that cannot be downloaded as documents: offices, and the names and states of grid cells.
 */

interface Kind {
  table: PlaceTable['table'];
  id: RegExp;
  /** A description of valid identifiers, for error messages. */
  expected: string;
  /** Columns that are allowed in addition to identifier, name, latitude_deg, longitude_deg and state. */
  more: readonly string[];
}

const kinds: readonly Kind[] = [
  { table: 'stations', id: /^[A-Z0-9]{3,8}$/, expected: 'a station, such as KNYC', more: ['elevation_m'] },
  {
    table: 'locations',
    id: /^[A-Z]{3}\/\d{1,3},\d{1,3}$/,
    expected: 'a grid point, such as OKX/33,35',
    more: [],
  },
  { table: 'offices', id: /^[A-Z]{3}$/, expected: 'the three letters of an office, such as OKX', more: [] },
];
const common = ['name', 'latitude_deg', 'longitude_deg', 'state'];
const bounds: Readonly<Record<string, [least: number, most: number]>> = {
  latitude_deg: [-90, 90],
  longitude_deg: [-180, 180],
  elevation_m: [-1000, 10_000],
};

/** Reports whether a text begins like a table of places, going by its first line. */
export function isPlaceTable(start: string): boolean {
  return /^"?(station_id|location_id|office)"?\s*,/.test(start);
}

/** Reads a table of places. Invalid lines are skipped, and their numbers are added to `leftOut`. */
export function placeTableOf(text: string, leftOut: string[]): Loadable {
  const [header, ...lines] = linesOf(text);
  const columns = header?.fields ?? [];
  const kind = kinds.find(({ table }) => placeKeys[table] === columns[0]);
  if (kind === undefined) throw new BrokenDocument('line 1: the first column is not a place identifier');
  checkColumns(columns, kind);
  const seen = new Map<string, number>();
  const rows = lines.flatMap(({ fields, line }) => {
    try {
      if (fields.length !== columns.length)
        throw new BrokenDocument(`it has ${fields.length} fields, and the first line has ${columns.length}`);
      const row = rowOf(new Map(columns.map((column, index) => [column, fields[index] ?? ''])), kind);
      const id = textOf(row[placeKeys[kind.table]]) ?? '';
      const before = seen.get(id);
      if (before !== undefined) throw new BrokenDocument(`${id} is on line ${before} already`);
      seen.set(id, line);
      return [row];
    } catch (error) {
      if (!(error instanceof BrokenDocument)) throw error;
      leftOut.push(`line ${line}: ${error.message}`);
      return [];
    }
  });
  if (rows.length === 0)
    throw lines.length === 0
      ? new NothingToLoad('it is a table without a line')
      : new BrokenDocument(leftOut[0]);
  return { family: 'places', table: kind.table, rows };
}

interface TableRecord {
  fields: string[];
  /** The number of the line on which the record ends, starting at 1. */
  line: number;
}

function linesOf(text: string): TableRecord[] {
  try {
    const options = { bom: true, info: true, trim: true, skip_empty_lines: true, relax_column_count: true };
    const found = parse(text, options) as unknown as { record: string[]; info: { lines: number } }[];
    return found.map(({ record, info }) => ({ fields: record, line: info.lines }));
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const { lines } = error as { lines?: unknown };
    throw new BrokenDocument(
      `${typeof lines === 'number' ? `line ${lines}: ` : ''}it is not valid CSV: ${error.message}`,
    );
  }
}

function checkColumns(columns: readonly string[], { table, more }: Kind): void {
  const known = [placeKeys[table], ...common, ...more];
  for (const [index, column] of columns.entries()) {
    if (!known.includes(column))
      throw new BrokenDocument(`line 1: the column ${quoted(column)} is not one of ${known.join(', ')}`);
    if (columns.indexOf(column) < index)
      throw new BrokenDocument(`line 1: the column ${column} appears twice`);
  }
  const needed = ['latitude_deg', 'longitude_deg', ...(table === 'stations' ? ['name'] : [])];
  const missing = needed.filter((column) => !columns.includes(column));
  if (missing.length > 0) throw new BrokenDocument(`line 1: the column ${missing.join(' and ')} is missing`);
}

/** Reads only the columns that the file has. The others remain unchanged in the database. */
function rowOf(fields: ReadonlyMap<string, string>, { table, id, expected }: Kind): Row {
  const key = placeKeys[table];
  const row: Row = {};
  for (const [column, text] of fields) {
    if (text.includes('\0')) throw new BrokenDocument(`${column} holds a NUL character`);
    if (column === key) {
      if (!id.test(text)) throw new BrokenDocument(`${column} is ${quoted(text)}, expected ${expected}`);
      row[column] = text;
    } else if (column in bounds) row[column] = numberOf(column, text);
    else if (column === 'state') row[column] = stateOf(text);
    else row[column] = text === '' ? (table === 'stations' ? (fields.get(key) ?? '') : null) : text;
  }
  const { latitude_deg: latitude, longitude_deg: longitude } = row;
  if (typeof latitude !== 'number' || typeof longitude !== 'number')
    throw new BrokenDocument(`${latitude === null ? 'latitude_deg' : 'longitude_deg'} is missing`);
  return { ...row, time_zone: timeZoneAt(latitude, longitude) };
}

function numberOf(column: string, text: string): number | null {
  if (text === '') return null;
  const [min, max] = bounds[column] ?? [-Infinity, Infinity];
  const value = /^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw new BrokenDocument(`${column} is ${quoted(text)}, expected a number from ${min} to ${max}`);
}

function stateOf(text: string): string | null {
  if (text === '' || /^[A-Z]{2}$/.test(text)) return text === '' ? null : text;
  throw new BrokenDocument(`state is ${quoted(text)}, expected two letters, such as NY`);
}
