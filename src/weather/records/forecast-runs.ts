import { bigint, boolean, doublePrecision, integer, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { identifier } from '../../core/lib/parameters.ts';
import { instantColumn } from '../rows/columns.ts';
import type { Features } from '../family.ts';
import { pointGeometry } from '../geometry.ts';
import { instant, instantOrNull, type Instant } from '../instant.ts';
import { pointParameter } from '../places/place-parameters.ts';
import type { Position } from '../places/position.ts';
import type { ForecastUnits } from '../quantity-units.ts';
import { cleanerOf, type Cleaned } from '../rows/cleaner.ts';
import { forecastUnits, type Converter } from '../units.ts';

/** What hourly and narrative forecasts have in common: runs of one kind, each with its periods. */

export const forecastRuns = pgTable('forecast_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
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
export const forecastPeriods = pgTable('forecast_periods', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
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

/** Null: any grid cell. */
export const locationParameter = identifier(
  /^[A-Z]{3}\/\d{1,3},\d{1,3}$/,
  'a grid cell: office, slash, x, comma, y, such as OKX/33,35',
  { description: 'A grid cell of a forecast office. Without it: the newest of any.', example: 'OKX/33,35' },
);

export const forecastPointParameter = pointParameter(
  'Latitude and longitude: the nearest grid cell within `radius` that has a forecast which is not over.',
);

export interface ForecastRunData {
  location: string;
  office: string;
  gridX: number;
  gridY: number;
  /** The middle of the cell, in degrees north and east; null if no table says so. */
  latitude: number | null;
  longitude: number | null;
  timeZone: string | null;
  generatedAt: Instant;
  updatedAt: Instant | null;
  validFrom: Instant | null;
  validUntil: Instant | null;
  elevation: number | null;
  units: ForecastUnits;
}

/** One period of a run: an hour, or half a day. */
export interface ForecastPeriodData {
  number: number;
  startsAt: Instant;
  endsAt: Instant;
  isDaytime: boolean;
  temperature: number | null;
  dewpoint: number | null;
  relativeHumidity: number | null;
  precipitationProbability: number | null;
  windSpeedMin: number | null;
  windSpeedMax: number | null;
  windGust: number | null;
  /** One of 16 points: `NNW`. */
  windDirection: string | null;
  shortForecast: string | null;
  iconUrl: string | null;
}

const dispensable = ['timeZone', 'updatedAt', 'validFrom', 'validUntil', 'receivedAt'] as const;
export const cleanForecastRun = cleanerOf(forecastRuns, {
  key: ['kind', 'locationId', 'generatedAt'],
  nullable: dispensable,
});
export const cleanForecastPeriod = cleanerOf(forecastPeriods, { key: ['runId', 'number'] });

export type ForecastRunRow = Cleaned<typeof forecastRuns.$inferSelect, (typeof dispensable)[number]>;
export type ForecastPeriodRow = typeof forecastPeriods.$inferSelect;

/** Where the cell of a run lies; null if no table says so. */
export type CellPlace = Position | null;

/** One place: the cell, with its periods. */
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
