import { type AnyColumn, getTableColumns, getTableName } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import { isPosition, shapeOf } from '../shape.ts';
import { earliest, latest } from './columns.ts';

/** Why a field was set to null, or a whole row was left out. */
export type RejectionReason =
  | 'bad_geometry'
  | 'bad_instant'
  | 'bad_json'
  | 'in_future'
  | 'not_finite'
  | 'out_of_range'
  | 'unknown_time_zone'
  | 'unknown_value';

/** An invalid field in a record. */
export interface Rejection {
  /** The table and column: `observations.temperature_c`. */
  field: string;
  reason: RejectionReason;
  /** The record's key within its table: `KNYC 2026-01-20T17:51:00Z`. */
  record: string;
  /** True if the whole record had to be left out. */
  isLeftOut: boolean;
}

export type NoteRejection = (rejection: Rejection) => void;

/** Checks a value that is not null. Returns null if it is valid, or the reason why it is not. */
export type FieldCheck = (value: unknown) => RejectionReason | null;

/**
 * The valid range for each unit, which is the suffix of the column's name. The limits are well beyond any
 * record ever measured. Values that are only unlikely are dealt with elsewhere, by quality letters and
 * `currentConditions`.
 */
const unitLimits: readonly [suffix: string, least: number, most: number][] = [
  ['latitude_deg', -90, 90],
  ['longitude_deg', -180, 180],
  ['_deg', 0, 360],
  // Sensors do report 149 °C, with a quality letter that marks the value as wrong.
  ['_c', -150, 200],
  ['_pct', 0, 100.5],
  ['_kmh', 0, 600],
  ['_pa', 75_000, 115_000],
  ['elevation_m', -1000, 10_000],
  ['_m', 0, 1_000_000],
  ['_mm', 0, 5000],
];

/**
 * Returns a check for numeric columns. The number must be finite, and within the range for the unit in the
 * column's name.
 */
export function numberCheck(columnName: string): FieldCheck {
  const [, min, max] = unitLimits.find(([suffix]) => columnName.endsWith(suffix)) ?? [
    '',
    -Infinity,
    Infinity,
  ];
  return (value) => {
    if (typeof value !== 'number' || !Number.isFinite(value)) return 'not_finite';
    return value < min || value > max ? 'out_of_range' : null;
  };
}

function instantCheck(value: unknown): RejectionReason | null {
  return value instanceof Date && value >= earliest && value < latest ? null : 'bad_instant';
}

/** Returns a check for times of past events, which cannot be after `until`. */
export function pastCheck(until: Date): FieldCheck {
  return (value) =>
    instantCheck(value) ?? (value instanceof Date && value.getTime() > until.getTime() ? 'in_future' : null);
}

export function oneOf(values: readonly string[]): FieldCheck {
  return (value) => (typeof value === 'string' && values.includes(value) ? null : 'unknown_value');
}

function objectCheck(value: unknown): RejectionReason | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'bad_json';
}

/** Checks that a value is a JSON object whose values are short strings, such as quality letters. */
export function textsCheck(value: unknown): RejectionReason | null {
  if (objectCheck(value) !== null) return 'bad_json';
  return Object.values(value as object).every((text) => typeof text === 'string') ? null : 'bad_json';
}

const zones = new Map<unknown, boolean>();
const maxZones = 2000;

/** Checks that a value is the name of a time zone that Node.js knows. */
export function timeZoneCheck(value: unknown): RejectionReason | null {
  let known = zones.get(value);
  if (known === undefined) {
    known = typeof value === 'string' && value !== '' && isTimeZone(value);
    if (zones.size < maxZones) zones.set(value, known);
  }
  return known ? null : 'unknown_time_zone';
}

function isTimeZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/**
 * Checks that a value is a GeoJSON point, polygon, multipolygon, or collection of polygons. All positions
 * must be on Earth, and all rings closed.
 */
export function geometryCheck(value: unknown): RejectionReason | null {
  if (objectCheck(value) !== null) return 'bad_geometry';
  const { type, coordinates } = value as { type?: unknown; coordinates?: unknown };
  const isKnown = type === 'Point' ? isPosition(coordinates) : shapeOf(value).state === 'known';
  return isKnown ? null : 'bad_geometry';
}

/**
 * Validates a row from the database. Invalid fields are set to null. If the column cannot be null, and is not
 * listed in `nullable` either, returns null instead of the row. Every invalid field is passed to `note`.
 */
type Cleaner<Row, N extends keyof Row> = <R extends Record<keyof Row, unknown>>(
  row: R,
  note: NoteRejection,
  checks?: Partial<Record<keyof Row, FieldCheck>>,
) => Cleaned<R, N> | null;

export type Cleaned<Row, N extends PropertyKey> = {
  [K in keyof Row]: K extends N ? Row[K] | null : Row[K];
};

interface CleanerOptions<Row, N extends keyof Row> {
  /** The columns that identify a row in log messages. */
  key: readonly (keyof Row & string)[];
  /** Columns that may be set to null in the result even though the table does not allow it. */
  nullable?: readonly N[];
  /** Checks that replace the default ones for some columns. */
  checks?: Partial<Record<keyof Row, FieldCheck>>;
}

interface CleanedField {
  name: string;
  field: string;
  check: FieldCheck;
  isRequired: boolean;
  /** Whether the column may be null. If not, a null in it is a JSON null, which is invalid. */
  isNullable: boolean;
}

/**
 * Creates a cleaner for a table. By default, the checks depend on the type of the column: numbers must be
 * finite and within the range for their unit, and times, enum values, time zones and geometries must be
 * valid.
 */
export function cleanerOf<T extends PgTable, N extends keyof T['$inferSelect'] = never>(
  table: T,
  { key, nullable = [], checks = {} }: CleanerOptions<T['$inferSelect'], N>,
): Cleaner<T['$inferSelect'], N> {
  type Row = T['$inferSelect'];
  const optional = new Set<PropertyKey>(nullable);
  const given: Partial<Record<PropertyKey, FieldCheck>> = checks;
  const fields: CleanedField[] = Object.entries<AnyColumn>(getTableColumns(table)).flatMap(
    ([name, column]) => {
      const check = given[name] ?? checkOf(column);
      const field = `${getTableName(table)}.${column.name}`;
      const isRequired = column.notNull && !optional.has(name);
      return check === null ? [] : [{ name, field, check, isRequired, isNullable: !column.notNull }];
    },
  );
  return <R extends Record<keyof Row, unknown>>(
    row: R,
    note: NoteRejection,
    more: Partial<Record<keyof Row, FieldCheck>> = {},
  ) => {
    const now: Partial<Record<PropertyKey, FieldCheck>> = more;
    const values = row as Record<string, unknown>;
    let cleaned: Record<string, unknown> | undefined;
    for (const { name, field, check, isRequired, isNullable } of fields) {
      const value = values[name];
      if (value === undefined || (value === null && isNullable)) continue;
      const reason = (now[name] ?? check)(value);
      if (reason === null) continue;
      note({ field, reason, record: recordOf(values, key), isLeftOut: isRequired });
      if (isRequired) return null;
      cleaned ??= { ...values };
      cleaned[name] = null;
    }
    return (cleaned ?? row) as Cleaned<R, N>;
  };
}

function checkOf(column: AnyColumn): FieldCheck | null {
  if (column.name === 'time_zone') return timeZoneCheck;
  if (column.name === 'geometry') return geometryCheck;
  switch (column.getSQLType()) {
    case 'timestamp with time zone':
      return instantCheck;
    case 'double precision':
      return numberCheck(column.name);
    case 'jsonb':
      return objectCheck;
    default:
      return column.enumValues === undefined ? null : oneOf(column.enumValues);
  }
}

const maxRecordChars = 120;

function recordOf(row: Record<string, unknown>, key: readonly string[]): string {
  return key
    .map((name) => {
      const value = row[name];
      if (!(value instanceof Date)) return String(value);
      return Number.isNaN(value.getTime()) ? 'no instant' : `${value.toISOString().slice(0, 19)}Z`;
    })
    .join(' ')
    .slice(0, maxRecordChars);
}
