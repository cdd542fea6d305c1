import { and, asc, desc, eq, gt, inArray, lt, lte } from 'drizzle-orm';
import type { Queries } from '../database/database.ts';
import { newNotes, noReading, reading, resolvedPlace, type Reading, type WeatherSource } from '../family.ts';
import { nearestHaving, type Around } from '../places/nearest.ts';
import type { Nearby, PlaceIndex } from '../places/place-index.ts';
import type { PlaceLists } from '../places/place-lists.ts';
import { pastCheck } from '../rows/field-checks.ts';
import { firstClean, presentUntil, type Page } from '../rows/first-clean.ts';
import {
  cleanForecastPeriod,
  cleanForecastRun,
  forecastPeriods,
  forecastRuns,
  type CellPlace,
  type ForecastPeriodRow,
  type ForecastRunRow,
} from './forecast-runs.ts';

/** Which forecast, and which of its periods. */
export interface ForecastQuery {
  kind: ForecastRunRow['kind'];
  /** Null: the newest of any place. */
  location: string | null;
  /** The nearest cell stands for it that has a forecast which is not over. Null: no point was asked for. */
  around: Around | null;
  /** Most periods. */
  count: number;
  /** Periods that end at or before this moment are over. */
  from: Date;
  /** Periods that begin then or later are too late. Null: to the last of the run. */
  until: Date | null;
}

/** The newest run of a kind for a place, or for any, with its first `count` periods. */
export async function readForecast<T>(
  { database, clock, places }: WeatherSource,
  query: ForecastQuery,
  dataOf: (run: ForecastRunRow, place: CellPlace, periods: ForecastPeriodRow[]) => T,
): Promise<Reading<T>> {
  const now = clock.now();
  const notes = newNotes();
  const generatedAt = pastCheck(presentUntil(now));
  const index = await cellsOf(places, query.around !== null);
  return database.snapshot(async (queries) => {
    const near = await nearestCell(queries, index, query, now);
    if (near === undefined) return noReading(notes);
    const location = near?.place.id ?? query.location;
    const run = await firstClean(
      now,
      (page) => selectRuns(queries, { ...query, location }, page),
      (row) => cleanForecastRun(row, notes.note, { generatedAt }),
    );
    if (run === null) return noReading(notes);
    const { from, until, count } = query;
    const rows = await queries
      .select()
      .from(forecastPeriods)
      .where(
        and(
          eq(forecastPeriods.runId, run.runId),
          gt(forecastPeriods.endsAt, from),
          until === null ? undefined : lt(forecastPeriods.startsAt, until),
        ),
      )
      .orderBy(asc(forecastPeriods.number));
    const periods = rows.flatMap((row) => cleanForecastPeriod(row, notes.note) ?? []).slice(0, count);
    const data = dataOf(run, index?.get(run.locationId) ?? null, periods);
    // Periods end with the clock alone.
    const found = reading({ data, lastModified: null, asOf: run.generatedAt }, notes);
    return near === null ? found : { ...found, resolved: resolvedPlace('location', near) };
  });
}

/** Null where no table says where cells lie, unless that is what was asked. */
async function cellsOf(places: PlaceLists, isAsked: boolean): Promise<PlaceIndex | null> {
  try {
    return (await places.locations()).index;
  } catch (error) {
    if (isAsked) throw error;
    return null;
  }
}

/** Null: no point was asked for. Undefined: nothing is near it. */
async function nearestCell(
  queries: Queries,
  index: PlaceIndex | null,
  { kind, around }: ForecastQuery,
  now: Date,
): Promise<Nearby | null | undefined> {
  if (around === null || index === null) return null;
  const having = async (ids: readonly string[]): Promise<ReadonlySet<string>> => {
    const rows = await queries
      .selectDistinct({ id: forecastRuns.locationId })
      .from(forecastRuns)
      .where(
        and(
          eq(forecastRuns.kind, kind),
          inArray(forecastRuns.locationId, [...ids]),
          gt(forecastRuns.validUntil, now),
          lte(forecastRuns.generatedAt, presentUntil(now)),
        ),
      );
    return new Set(rows.map(({ id }) => id));
  };
  const [nearest] = await nearestHaving(index, around, { most: 1, having });
  return nearest;
}

function selectRuns(queries: Queries, { kind, location }: ForecastQuery, { limit, offset, until }: Page) {
  return queries
    .select()
    .from(forecastRuns)
    .where(
      and(
        eq(forecastRuns.kind, kind),
        location === null ? undefined : eq(forecastRuns.locationId, location),
        until === null ? undefined : lte(forecastRuns.generatedAt, until),
      ),
    )
    .orderBy(
      desc(forecastRuns.generatedAt),
      // Beside a place the key has one run for a moment, and its index no such column.
      ...(location === null ? [desc(forecastRuns.runId)] : []),
    )
    .limit(limit)
    .offset(offset);
}
