import { and, eq, getTableColumns, sql, type SQL } from 'drizzle-orm';
import { boolean, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import type { Queries } from '../database/database.ts';
import type { CloudData, ObservationRow, PresentWeatherData } from '../observation-row.ts';
import { cleanerOf } from '../rows/cleaner.ts';
import { instantColumn } from '../rows/columns.ts';
import { numberCheck, oneOf, pastCheck, textsCheck } from '../rows/field-checks.ts';
import { presentUntil } from '../rows/first-clean.ts';
import type { Note } from '../rows/rejections.ts';

/** The tables of observations, and their rows as they are read: whole, and clean. */

export const stations = pgTable('stations', {
  stationId: text('station_id').notNull(),
  name: text('name').notNull(),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  elevationM: doublePrecision('elevation_m'),
  timeZone: text('time_zone').notNull(),
});
export const observationRows = pgTable('observations', {
  stationId: text('station_id').notNull(),
  observedAt: instantColumn('observed_at').notNull(),
  receivedAt: instantColumn('received_at').notNull(),
  textDescription: text('text_description'),
  rawMessage: text('raw_message'),
  temperatureC: doublePrecision('temperature_c'),
  dewpointC: doublePrecision('dewpoint_c'),
  relativeHumidityPct: doublePrecision('relative_humidity_pct'),
  windDirectionDeg: doublePrecision('wind_direction_deg'),
  windSpeedKmh: doublePrecision('wind_speed_kmh'),
  windGustKmh: doublePrecision('wind_gust_kmh'),
  altimeterPa: doublePrecision('altimeter_pa'),
  seaLevelPressurePa: doublePrecision('sea_level_pressure_pa'),
  visibilityM: doublePrecision('visibility_m'),
  temperatureMax24hC: doublePrecision('temperature_max_24h_c'),
  temperatureMin24hC: doublePrecision('temperature_min_24h_c'),
  precipitation1hMm: doublePrecision('precipitation_1h_mm'),
  precipitation3hMm: doublePrecision('precipitation_3h_mm'),
  precipitation6hMm: doublePrecision('precipitation_6h_mm'),
  heatIndexC: doublePrecision('heat_index_c'),
  windChillC: doublePrecision('wind_chill_c'),
  qc: jsonb('qc').$type<Record<string, string>>().notNull(),
});
export const observationWeather = pgTable('observation_weather', {
  stationId: text('station_id').notNull(),
  observedAt: instantColumn('observed_at').notNull(),
  position: smallint('position').notNull(),
  intensity: text('intensity', { enum: ['light', 'heavy'] }),
  modifier: text('modifier'),
  phenomenon: text('phenomenon').notNull(),
  raw: text('raw').notNull(),
  inVicinity: boolean('in_vicinity').notNull(),
});
export const observationClouds = pgTable('observation_clouds', {
  stationId: text('station_id').notNull(),
  observedAt: instantColumn('observed_at').notNull(),
  position: smallint('position').notNull(),
  amount: text('amount', { enum: ['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'] }).notNull(),
  baseM: doublePrecision('base_m'),
});

const ownColumns = getTableColumns(observationRows);
const belongs = (table: typeof observationWeather | typeof observationClouds): SQL | undefined =>
  and(eq(table.stationId, observationRows.stationId), eq(table.observedAt, observationRows.observedAt));

/** Observations with their station, weather and clouds: one statement, so one snapshot. */
export function selectObservations(queries: Queries, where?: SQL) {
  const weather = sql<PresentWeatherData[]>`(select coalesce(json_agg(json_build_object(
    'intensity', ${observationWeather.intensity}, 'modifier', ${observationWeather.modifier},
    'phenomenon', ${observationWeather.phenomenon}, 'raw', ${observationWeather.raw},
    'inVicinity', ${observationWeather.inVicinity}) order by ${observationWeather.position}), '[]')
    from ${observationWeather} where ${belongs(observationWeather)})`;
  const clouds = sql<CloudData[]>`(select coalesce(json_agg(json_build_object(
    'amount', ${observationClouds.amount}, 'base', ${observationClouds.baseM})
    order by ${observationClouds.position}), '[]')
    from ${observationClouds} where ${belongs(observationClouds)})`;
  return queries
    .select({ ...ownColumns, station: getTableColumns(stations), presentWeather: weather, clouds })
    .from(observationRows)
    .innerJoin(stations, eq(stations.stationId, observationRows.stationId))
    .where(where)
    .$dynamic();
}

const cleanStation = cleanerOf(stations, {
  key: ['stationId'],
  nullable: ['latitudeDeg', 'longitudeDeg', 'timeZone'],
});
const cleanObservation = cleanerOf(observationRows, {
  key: ['stationId', 'observedAt'],
  nullable: ['receivedAt', 'qc'],
  checks: { qc: textsCheck },
});
const cloudAmounts: readonly unknown[] = ['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'];
const baseCheck = numberCheck('base_m');
const intensityCheck = oneOf(['light', 'heavy']);

type SelectedObservation = Awaited<ReturnType<typeof selectObservations>>[number];

/**
 * The clean parts of an observation; null if it is none, as where it was observed after `now`. Each bad part
 * is noted.
 */
export function cleanedObservation(row: SelectedObservation, note: Note, now: Date): ObservationRow | null {
  const own = cleanObservation(row, note, { observedAt: pastCheck(presentUntil(now)) });
  const station = cleanStation(row.station, note);
  if (own === null || station === null) return null;
  const record = `${own.stationId} ${own.observedAt.toISOString().slice(0, 19)}Z`;
  const clouds = row.clouds.flatMap(({ amount, base }) => {
    const field = 'observation_clouds';
    if (!cloudAmounts.includes(amount)) {
      note({ field: `${field}.amount`, reason: 'unknown_value', record, isLeftOut: true });
      return [];
    }
    const reason = base === null ? null : baseCheck(base);
    if (reason === null) return [{ amount, base }];
    note({ field: `${field}.base_m`, reason, record, isLeftOut: false });
    return [{ amount, base: null }];
  });
  const presentWeather = row.presentWeather.map((each) => {
    if (each.intensity === null || intensityCheck(each.intensity) === null) return each;
    const field = 'observation_weather.intensity';
    note({ field, reason: 'unknown_value', record, isLeftOut: false });
    return { ...each, intensity: null };
  });
  return { ...own, qc: own.qc ?? {}, station, clouds, presentWeather };
}
