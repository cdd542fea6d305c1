import type { Units } from './units.ts';

/** A time in UTC, to the second: `YYYY-MM-DDTHH:mm:ssZ`. */
export type UtcTime = string;

export function instant(date: Date): UtcTime {
  return `${date.toISOString().slice(0, 19)}Z`;
}

export function instantOrNull(date: Date | null): UtcTime | null {
  return date === null ? null : instant(date);
}

/** A position on Earth, in degrees (WGS 84). */
export interface Position {
  /** Degrees north, from -90 to 90. */
  latitude: number;
  /** Degrees east, from -180 to 180. */
  longitude: number;
}

/**
 * An area between two meridians and two parallels. If west is greater than east, it crosses the antimeridian.
 */
export interface Box {
  west: number;
  south: number;
  east: number;
  north: number;
}

/** A GeoJSON geometry (WGS 84, longitude first). In XML and text, it is a single value. */
export type Geometry = Readonly<Record<string, unknown>>;

/** Returns a point geometry, or null if one of the coordinates is unknown. */
export function pointGeometry(latitude: number | null, longitude: number | null): Geometry | null {
  return latitude === null || longitude === null
    ? null
    : { type: 'Point', coordinates: [longitude, latitude] };
}

/**
 * A value that may be known, empty or unknown. Always use `fold` to read it, so that the three cases are
 * handled separately and an unknown value is never mistaken for an empty one.
 */
export type Known<T> =
  { state: 'known'; value: T } | { state: 'empty' } | { state: 'unknown'; reason: UnknownReason };

export const unknownReasons = [
  'not_received',
  'predictability_too_low',
  'unreadable',
  'unplaced',
  'stale',
  'not_covered',
] as const;
/**
 * `not_received` if the provider publishes it separately and it has not arrived. `predictability_too_low` if
 * the provider cannot forecast it. `unreadable` if it could not be read. `unplaced` if its outline is
 * missing. `not_covered` if the provider does not cover the location.
 */
export type UnknownReason = (typeof unknownReasons)[number];

/** A part of a record that is unknown, as in `meta.unknown`. */
export interface UnknownPart {
  field: string;
  reason: UnknownReason;
}

export function known<T>(value: T): Known<T> {
  return { state: 'known', value };
}

export function unknown(reason: UnknownReason): Known<never> {
  return { state: 'unknown', reason };
}

export const empty: Known<never> = { state: 'empty' };

/** Calls the function for the state that the value is in, and returns its result. */
export function fold<T, R>(
  one: Known<T>,
  branches: { known: (value: T) => R; empty: () => R; unknown: (reason: UnknownReason) => R },
): R {
  switch (one.state) {
    case 'known':
      return branches.known(one.value);
    case 'empty':
      return branches.empty();
    case 'unknown':
      return branches.unknown(one.reason);
  }
}

/** A value in a table. null if unknown. */
export type Cell = string | number | boolean | null;

/** A column of a table, whose values are taken from rows of the type `Row`. */
export interface Column<Row> {
  name: string;
  /** The kind of quantity, which determines the unit for a request. Absent if the values have no unit. */
  quantity?: keyof Units;
  of: (row: Row) => Cell;
}

/** How to convert a record to a table, for CSV. */
export interface WeatherTable<Data extends object = object> {
  /** The columns in order. They are the same for all records. */
  columns: readonly Pick<Column<never>, 'name' | 'quantity'>[];
  /** Returns the rows of a record, with a value for each column. */
  rows(data: Data): Cell[][];
}

/** Creates a table. `rowsOf` returns the rows of a record. */
export function weatherTable<Data extends object, Row>(
  columns: readonly Column<Row>[],
  rowsOf: (data: Data) => readonly Row[],
): WeatherTable<Data> {
  return { columns, rows: (data) => rowsOf(data).map((row) => columns.map(({ of }) => of(row))) };
}

/** Creates columns with the same names as the fields of a row. */
export function fields<const Name extends string>(
  names: Readonly<Record<Name, keyof Units | null>>,
): Column<Readonly<Record<Name, Cell>>>[] {
  return (Object.keys(names) as Name[]).map((name) => {
    return { name, quantity: names[name] ?? undefined, of: (row) => row[name] };
  });
}
