import { and, asc, desc, eq, gt, inArray, lt, lte } from 'drizzle-orm';
import { bigint, boolean, doublePrecision, integer, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { identifier } from '../../core/lib/parameters.ts';
import { type Cleaned, cleanerOf, pastCheck } from '../database/cleaner.ts';
import { firstClean, instantColumn, presentUntil, type RowRange } from '../database/columns.ts';
import type { Queries } from '../database/database.ts';
import {
  type Features,
  newNotes,
  noReading,
  type Reading,
  reading,
  resolvedPlace,
  type WeatherSource,
} from '../family.ts';
import { type Nearby, nearestHaving, type PlaceIndex, type SearchArea } from '../places/place-index.ts';
import type { PlaceLists } from '../places/place-lists.ts';
import { pointParameter } from '../places/place-parameters.ts';
import type { Position } from '../places/position.ts';
import { type Converter, forecastUnits } from '../units.ts';
import { instant, instantOrNull, pointGeometry } from '../values.ts';
import { type ForecastPeriodData, type ForecastRunData } from './family-fields.ts';

/** Shared code for hourly and narrative forecasts. A forecast is a run with a list of periods. */

export const forecastRuns = pgTable('forecast_runs', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  kind: text('kind', { enum: ['hourly', 'narrative'] }).notNull(),
  locationId: text('location_id').notNull(),
  office: text('office').notNull(),
  gridX: integer('grid_x').notNull(),
  gridY: integer('grid_y').notNull(),
  timeZone: text('time_zone').notNull(),
  generatedAt: instantColumn('generated_at').notNull(),
  updatedAt: instantColumn('updated_at').notNull(),
  validFrom: instantColumn('valid_from').notNull(),
  validUntil: instantColumn('valid_until').notNull(),
  elevationM: doublePrecision('elevation_m'),
  receivedAt: instantColumn('received_at').notNull(),
});
const forecastPeriods = pgTable('forecast_periods', {
  runId: bigint('run_id', { mode: 'bigint' }).notNull(),
  number: smallint('number').notNull(),
  startsAt: instantColumn('starts_at').notNull(),
  endsAt: instantColumn('ends_at').notNull(),
  name: text('name'),
  isDaytime: boolean('is_daytime').notNull(),
  temperatureC: doublePrecision('temperature_c'),
  temperatureTrend: text('temperature_trend', { enum: ['rising', 'falling'] }),
  precipitationProbabilityPct: doublePrecision('precipitation_probability_pct'),
  dewpointC: doublePrecision('dewpoint_c'),
  relativeHumidityPct: doublePrecision('relative_humidity_pct'),
  windSpeedMinKmh: doublePrecision('wind_speed_min_kmh'),
  windSpeedMaxKmh: doublePrecision('wind_speed_max_kmh'),
  windGustKmh: doublePrecision('wind_gust_kmh'),
  windDirection: text('wind_direction'),
  iconUrl: text('icon_url'),
  shortForecast: text('short_forecast'),
  detailedForecast: text('detailed_forecast'),
});

export const forecastTables = [forecastRuns, forecastPeriods];

/** null for all grid cells. */
export const locationParameter = identifier(
  /^[A-Z]{3}\/\d{1,3},\d{1,3}$/,
  'a grid cell: office, slash, x, comma, y, such as OKX/33,35',
  {
    description: 'Grid cell of a forecast office. Default: the cell with the newest forecast.',
    example: 'OKX/33,35',
  },
);

export const forecastPointParameter = pointParameter(
  'Latitude and longitude. Uses the nearest grid cell within `radius` that has a current forecast.',
);

const dispensable = ['timeZone', 'updatedAt', 'validFrom', 'validUntil', 'receivedAt'] as const;
const cleanForecastRun = cleanerOf(forecastRuns, {
  key: ['kind', 'locationId', 'generatedAt'],
  nullable: dispensable,
});
const cleanForecastPeriod = cleanerOf(forecastPeriods, { key: ['runId', 'number'] });

type ForecastRunRow = Cleaned<typeof forecastRuns.$inferSelect, (typeof dispensable)[number]>;
type ForecastPeriodRow = typeof forecastPeriods.$inferSelect;

/** The position of a grid cell, or null if there is no table of positions. */
type CellPlace = Position | null;

/** Returns the grid cell as a single item that contains all periods. */
export function forecastFeatures(record: ForecastRunData): Features {
  const { units, ...properties } = record;
  const { location: id, latitude, longitude } = record;
  return { about: { units }, places: [{ id, geometry: pointGeometry(latitude, longitude), properties }] };
}

export function forecastRunData(run: ForecastRunRow, place: CellPlace, convert: Converter): ForecastRunData {
  return {
    location: run.locationId,
    office: run.office,
    gridX: run.gridX,
    gridY: run.gridY,
    latitude: place?.latitude ?? null,
    longitude: place?.longitude ?? null,
    timeZone: run.timeZone,
    generatedAt: instant(run.generatedAt),
    updatedAt: instantOrNull(run.updatedAt),
    validFrom: instantOrNull(run.validFrom),
    validUntil: instantOrNull(run.validUntil),
    elevation: convert.elevation(run.elevationM),
    units: forecastUnits(convert),
  };
}

export function periodData(period: ForecastPeriodRow, convert: Converter): ForecastPeriodData {
  return {
    number: period.number,
    startsAt: instant(period.startsAt),
    endsAt: instant(period.endsAt),
    isDaytime: period.isDaytime,
    temperature: convert.temperature(period.temperatureC),
    dewpoint: convert.temperature(period.dewpointC),
    relativeHumidity: convert.percentage(period.relativeHumidityPct),
    precipitationProbability: convert.percentage(period.precipitationProbabilityPct),
    windSpeedMin: convert.windSpeed(period.windSpeedMinKmh),
    windSpeedMax: convert.windSpeed(period.windSpeedMaxKmh),
    windGust: convert.windSpeed(period.windGustKmh),
    windDirection: period.windDirection,
    shortForecast: period.shortForecast,
    iconUrl: period.iconUrl,
  };
}

/** Selects a forecast and some of its periods. */
interface ForecastQuery {
  kind: ForecastRunRow['kind'];
  /** null for the newest run of any grid cell. */
  location: string | null;
  /** Use the nearest grid cell that has a current forecast. null if the request does not contain a point. */
  searchArea: SearchArea | null;
  /** The maximum number of periods. */
  count: number;
  /** Leave out periods that have ended by this time. */
  from: Date;
  /** Leave out periods that begin at this time or later. null for no limit. */
  until: Date | null;
}

/**
 * Reads the newest run of this kind, either for one grid cell or for any, and the first `count` of its
 * periods.
 */
export async function readForecast<T>(
  { database, clock, places }: WeatherSource,
  query: ForecastQuery,
  dataOf: (run: ForecastRunRow, place: CellPlace, periods: ForecastPeriodRow[]) => T,
): Promise<Reading<T>> {
  const now = clock.now();
  const notes = newNotes();
  const generatedAt = pastCheck(presentUntil(now));
  const index = await cellsOf(places, query.searchArea !== null);
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
    // There is no modification date, because periods are left out once they are over.
    const found = reading({ data, lastModified: null, asOf: run.generatedAt }, notes);
    return near === null ? found : { ...found, resolved: resolvedPlace('location', near) };
  });
}

/**
 * Returns the grid cells with their positions, or null if they cannot be read. If the request depends on
 * them, throws instead.
 */
async function cellsOf(places: PlaceLists, isAsked: boolean): Promise<PlaceIndex | null> {
  try {
    return (await places.locations()).index;
  } catch (error) {
    if (isAsked) throw error;
    return null;
  }
}

/**
 * Returns the nearest grid cell with a current forecast, or undefined if there is none nearby. Returns null
 * if the request does not contain a point.
 */
async function nearestCell(
  queries: Queries,
  index: PlaceIndex | null,
  { kind, searchArea }: ForecastQuery,
  now: Date,
): Promise<Nearby | null | undefined> {
  if (searchArea === null || index === null) return null;
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
  const [nearest] = await nearestHaving(index, searchArea, { limit: 1, having });
  return nearest;
}

function selectRuns(queries: Queries, { kind, location }: ForecastQuery, { limit, offset, until }: RowRange) {
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
      // Not needed for a single grid cell, where no two runs have the same time. The index does not contain
      // this column.
      ...(location === null ? [desc(forecastRuns.runId)] : []),
    )
    .limit(limit)
    .offset(offset);
}
