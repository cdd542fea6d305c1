import { getTableColumns, getTableName, type AnyColumn } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import {
  geometryCheck,
  instantCheck,
  numberCheck,
  objectCheck,
  oneOf,
  timeZoneCheck,
  type FieldCheck,
} from './field-checks.ts';
import type { Note } from './rejections.ts';

/**
 * Looks at a row as it came. A bad field becomes null; where the table says that there is always a value, the
 * row is left out (null), unless `nullable` names the field. Each is noted.
 */
export type Cleaner<Row, N extends keyof Row> = <R extends Record<keyof Row, unknown>>(
  row: R,
  note: Note,
  checks?: Partial<Record<keyof Row, FieldCheck>>,
) => Cleaned<R, N> | null;

export type Cleaned<Row, N extends PropertyKey> = {
  [K in keyof Row]: K extends N ? Row[K] | null : Row[K];
};

export interface CleanerOptions<Row, N extends keyof Row> {
  /** The fields that tell the row from others, for the log. */
  key: readonly (keyof Row & string)[];
  /** Fields that the table requires and a reader can do without. */
  nullable?: readonly N[];
  /** Beside those that follow from the type of a column. */
  checks?: Partial<Record<keyof Row, FieldCheck>>;
}

interface Field {
  name: string;
  field: string;
  check: FieldCheck;
  isRequired: boolean;
  /** Null in a column that has always a value is a JSON null, which is none. */
  isNullable: boolean;
}

/**
 * The checks of a table follow from its columns: finite numbers within what their unit allows, instants that
 * are some, members of closed lists, known time zones, geometries; and those of `checks`. Pure.
 */
export function cleanerOf<T extends PgTable, N extends keyof T['$inferSelect'] = never>(
  table: T,
  { key, nullable = [], checks = {} }: CleanerOptions<T['$inferSelect'], N>,
): Cleaner<T['$inferSelect'], N> {
  type Row = T['$inferSelect'];
  const optional = new Set<PropertyKey>(nullable);
  const given: Partial<Record<PropertyKey, FieldCheck>> = checks;
  const fields: Field[] = Object.entries<AnyColumn>(getTableColumns(table)).flatMap(([name, column]) => {
    const check = given[name] ?? checkOf(column);
    const field = `${getTableName(table)}.${column.name}`;
    const isRequired = column.notNull && !optional.has(name);
    return check === null ? [] : [{ name, field, check, isRequired, isNullable: !column.notNull }];
  });
  return <R extends Record<keyof Row, unknown>>(
    row: R,
    note: Note,
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

const longestRecord = 120;

function recordOf(row: Record<string, unknown>, key: readonly string[]): string {
  return key
    .map((name) => {
      const value = row[name];
      if (!(value instanceof Date)) return String(value);
      return Number.isNaN(value.getTime()) ? 'no instant' : `${value.toISOString().slice(0, 19)}Z`;
    })
    .join(' ')
    .slice(0, longestRecord);
}
