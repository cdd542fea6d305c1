import type { Units } from './quantity-units.ts';

/** What one field of a table holds; null: unknown. */
export type Cell = string | number | boolean | null;

/** One column of a table whose rows are `Row`. */
export interface Column<Row> {
  name: string;
  /** What is measured; its unit is that of the request. Without it the values have none. */
  quantity?: keyof Units;
  of: (row: Row) => Cell;
}

/** A record as a table: for CSV. */
export interface WeatherTable<Data extends object = object> {
  /** In order. They are the same whatever the data is. */
  columns: readonly Pick<Column<never>, 'name' | 'quantity'>[];
  /** A cell for each column. Pure. */
  rows(data: Data): Cell[][];
}

/** A table of what `rowsOf` finds in a record. */
export function weatherTable<Data extends object, Row>(
  columns: readonly Column<Row>[],
  rowsOf: (data: Data) => readonly Row[],
): WeatherTable<Data> {
  return { columns, rows: (data) => rowsOf(data).map((row) => columns.map(({ of }) => of(row))) };
}

/** Columns that are fields of the row under their own names. */
export function fields<const Name extends string>(
  names: Readonly<Record<Name, keyof Units | null>>,
): Column<Readonly<Record<Name, Cell>>>[] {
  return (Object.keys(names) as Name[]).map((name) => {
    const quantity = names[name];
    return { name, ...(quantity === null ? {} : { quantity }), of: (row) => row[name] };
  });
}
