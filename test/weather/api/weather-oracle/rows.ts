import type { WritableDatabase } from '../../../../src/weather/feed/tables/upsert.ts';

/** Rows of the database with the names of the contract, from which the oracle computes. */
export type Row = Readonly<Record<string, unknown>>;

const tables = [
  'stations',
  'locations',
  'zones',
  'observations',
  'observation_weather',
  'observation_clouds',
  'alert_runs',
  'alerts',
  'alert_run_members',
  'alert_areas',
  'alert_references',
  'forecast_runs',
  'forecast_periods',
  'forecast_discussions',
  'forecast_discussion_sections',
  'weather_story_runs',
  'weather_stories',
  'outlook_runs',
  'outlooks',
  'outlook_discussions',
] as const;
export type Tables = Readonly<Record<(typeof tables)[number], readonly Row[]>>;

/** Every row as JSON from PostgreSQL, so that no driver and no schema of ours parses it. */
export async function rawRows(target: WritableDatabase): Promise<Tables> {
  const entries = tables.map(async (table) => {
    const [found] = await target.query(
      `select coalesce(json_agg(each), '[]')::text as rows from ${table} each`,
      [],
    );
    return [table, JSON.parse(String(found?.['rows'])) as Row[]] as const;
  });
  return Object.fromEntries(await Promise.all(entries)) as unknown as Tables;
}

export function numberOf(row: Row, column: string): number | null {
  const value = cell(row, column);
  return value === null ? null : Number(value);
}

export function textOf(row: Row, column: string): string | null {
  const value = cell(row, column);
  if (value !== null && typeof value !== 'string') throw new TypeError(`${column} is not text`);
  return value;
}

/** Milliseconds since 1970. */
export function momentOf(row: Row, column: string): number {
  return Date.parse(textOf(row, column) ?? 'none');
}

/** `YYYY-MM-DDTHH:mm:ssZ`, truncated to the second. */
export function instantOf(row: Row, column: string): string | null {
  return cell(row, column) === null ? null : inSeconds(momentOf(row, column));
}

export function inSeconds(milliseconds: number): string {
  return new Date(Math.floor(milliseconds / 1000) * 1000).toISOString().replace('.000Z', 'Z');
}

export function cell(row: Row, column: string): unknown {
  if (!(column in row)) throw new TypeError(`there is no column ${column}`);
  return row[column];
}

/** Sorts ascending by the first key, then by the next one. `desc` reverses one key. */
export function sorted(rows: readonly Row[], ...by: readonly ((row: Row) => string | number)[]): Row[] {
  return [...rows].sort((a, b) => {
    for (const key of by) {
      const [x, y] = [key(a), key(b)];
      if (x !== y) return x < y ? -1 : 1;
    }
    return 0;
  });
}
