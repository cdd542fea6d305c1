import type { Units } from './units.ts';

/** Formatted as `YYYY-MM-DDTHH:mm:ssZ`, to the second. */
export type Instant = string;

export function instant(date: Date): Instant {
  return `${date.toISOString().slice(0, 19)}Z`;
}

export function instantOrNull(date: Date | null): Instant | null {
  return date === null ? null : instant(date);
}

/** A place on Earth, in degrees (WGS 84). */
export interface Position {
  /** North, from -90 to 90. */
  latitude: number;
  /** East, from -180 to 180. */
  longitude: number;
}

/**
 * The area between two meridians and two parallels. A west greater than the east crosses the antimeridian.
 */
export interface Box {
  west: number;
  south: number;
  east: number;
  north: number;
}

/** A GeoJSON geometry (WGS 84, longitude first). XML and text treat it as a single value. */
export type Geometry = Readonly<Record<string, unknown>>;

/** Returns a point for degrees north and east, or null if either coordinate is unknown. */
export function pointGeometry(latitude: number | null, longitude: number | null): Geometry | null {
  return latitude === null || longitude === null
    ? null
    : { type: 'Point', coordinates: [longitude, latitude] };
}

/**
 * Knowledge about a value, an area or a place. An unknown one is never treated as empty, because `fold` takes
 * a branch for each state.
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
 * `not_received`: the provider publishes it separately, and it has not arrived. `predictability_too_low`: the
 * provider cannot forecast it. `unreadable`: it arrived but cannot be read. `unplaced`: its outline is
 * missing. `not_covered`: the provider does not cover the place.
 */
export type UnknownReason = (typeof unknownReasons)[number];

/** An unknown part of a record, as listed in `meta.unknown`. */
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

/** Returns the result of the branch that matches the state. */
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

/** The value of a field in a table, or null if unknown. */
export type Cell = string | number | boolean | null;

/** A column of a table whose rows have the type `Row`. */
export interface Column<Row> {
  name: string;
  /** The quantity, whose unit depends on the request. If absent, the values have no unit. */
  quantity?: keyof Units;
  of: (row: Row) => Cell;
}

/** A record as a table, for CSV. */
export interface WeatherTable<Data extends object = object> {
  /** The columns in order. They do not depend on the data. */
  columns: readonly Pick<Column<never>, 'name' | 'quantity'>[];
  /** Returns rows with one cell per column. */
  rows(data: Data): Cell[][];
}

/** Creates a table of the rows that `rowsOf` finds in a record. */
export function weatherTable<Data extends object, Row>(
  columns: readonly Column<Row>[],
  rowsOf: (data: Data) => readonly Row[],
): WeatherTable<Data> {
  return { columns, rows: (data) => rowsOf(data).map((row) => columns.map(({ of }) => of(row))) };
}

/** Creates columns for fields of the row that have the same names. */
export function fields<const Name extends string>(
  names: Readonly<Record<Name, keyof Units | null>>,
): Column<Readonly<Record<Name, Cell>>>[] {
  return (Object.keys(names) as Name[]).map((name) => {
    const quantity = names[name];
    return { name, ...(quantity === null ? {} : { quantity }), of: (row) => row[name] };
  });
}
