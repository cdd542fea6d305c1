import { and, desc, eq, getTableColumns, sql, type SQL } from 'drizzle-orm';
import { boolean, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { identifier, type ValuesOf } from '../../parameters.ts';
import { instantColumn } from '../columns.ts';
import type { Queries } from '../database/database.ts';
import { nothing, weatherFamily, type Reading, type WeatherSource } from '../family.ts';
import { instant, type Instant } from '../instant.ts';
import {
  columnName,
  measuredColumns,
  type CloudData,
  type MeasuredRow,
  type ObservationRow,
  type PresentWeatherData,
  type StationRow,
} from '../observation-row.ts';
import { stationPattern, unitsParameter } from '../parameters.ts';
import type { ObservationUnits } from '../quantity-units.ts';
import { converterOf, observationUnits, type Converter } from '../units.ts';

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

const parameters = {
  station: identifier(stationPattern, 'a station, such as KNYC', {
    description: 'A station. Without it: the newest observation of any.',
    example: 'KNYC',
  }),
  units: unitsParameter,
};

export interface ObservationData extends MeasuredData {
  station: StationData;
  observedAt: Instant;
  timeZone: string;
  receivedAt: Instant;
  textDescription: string | null;
  rawMessage: string | null;
  presentWeather: PresentWeatherData[];
  clouds: CloudData[];
  /**
   * The MADIS quality letter of each value: V verified, C coarse, S screened, X and B refused, Q questioned,
   * Z none.
   */
  quality: Record<keyof MeasuredData, string | null>;
  units: ObservationUnits;
}

export interface StationData {
  id: string;
  name: string;
  /** Degrees north and east. */
  latitude: number;
  longitude: number;
  elevation: number | null;
}

/** The measured values of one observation. */
export interface MeasuredData {
  temperature: number | null;
  dewpoint: number | null;
  relativeHumidity: number | null;
  windDirection: number | null;
  windSpeed: number | null;
  windGust: number | null;
  altimeter: number | null;
  seaLevelPressure: number | null;
  visibility: number | null;
  temperatureMax24h: number | null;
  temperatureMin24h: number | null;
  precipitation1h: number | null;
  precipitation3h: number | null;
  precipitation6h: number | null;
  heatIndex: number | null;
  windChill: number | null;
}

/** The newest observation of a station, or of any. */
export const observations = weatherFamily({
  tables: [stations, observationRows, observationWeather, observationClouds],
  endpoint: {
    path: '/observations',
    operationId: 'getObservation',
    summary: 'The newest observation of a station, or of any',
    parameters,
    maxAgeSeconds: 60,
  },
  template: 'observations',
  itemNames: { presentWeather: 'weather', clouds: 'cloud' },
  read: readObservation,
});

async function readObservation(
  { database }: WeatherSource,
  { station, units }: ValuesOf<typeof parameters>,
): Promise<Reading<ObservationData>> {
  const [row] = await database.one(async (queries) => {
    const { ofAny, ofStation } = prepared(queries);
    return station === null ? ofAny.execute() : ofStation.execute({ station });
  });
  if (row === undefined) return nothing;
  return { data: observationData(row, converterOf(units)), lastModified: row.receivedAt };
}

const statements = new WeakMap<Queries, ReturnType<typeof prepareLatest>>();

/** Both statements are built once for each database: building takes longer than the database's answer. */
function prepared(queries: Queries): ReturnType<typeof prepareLatest> {
  const known = statements.get(queries) ?? prepareLatest(queries);
  statements.set(queries, known);
  return known;
}

function prepareLatest(queries: Queries) {
  return {
    ofAny: selectObservations(queries)
      .orderBy(desc(observationRows.observedAt), observationRows.stationId)
      .limit(1)
      .prepare('observations_of_any'),
    ofStation: selectObservations(queries, eq(observationRows.stationId, sql.placeholder('station')))
      .orderBy(desc(observationRows.observedAt))
      .limit(1)
      .prepare('observations_of_station'),
  };
}

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

export function measuredData(row: MeasuredRow, convert: Converter): MeasuredData {
  return {
    temperature: convert.temperature(row.temperatureC),
    dewpoint: convert.temperature(row.dewpointC),
    relativeHumidity: convert.percentage(row.relativeHumidityPct),
    windDirection: convert.windDirection(row.windDirectionDeg),
    windSpeed: convert.windSpeed(row.windSpeedKmh),
    windGust: convert.windSpeed(row.windGustKmh),
    altimeter: convert.pressure(row.altimeterPa),
    seaLevelPressure: convert.pressure(row.seaLevelPressurePa),
    visibility: convert.visibility(row.visibilityM),
    temperatureMax24h: convert.temperature(row.temperatureMax24hC),
    temperatureMin24h: convert.temperature(row.temperatureMin24hC),
    precipitation1h: convert.precipitation(row.precipitation1hMm),
    precipitation3h: convert.precipitation(row.precipitation3hMm),
    precipitation6h: convert.precipitation(row.precipitation6hMm),
    heatIndex: convert.temperature(row.heatIndexC),
    windChill: convert.temperature(row.windChillC),
  };
}

export function stationData(station: StationRow, convert: Converter): StationData {
  return {
    id: station.stationId,
    name: station.name,
    latitude: station.latitudeDeg,
    longitude: station.longitudeDeg,
    elevation: convert.elevation(station.elevationM),
  };
}

export function cloudData(clouds: readonly CloudData[], convert: Converter): CloudData[] {
  return clouds.map(({ amount, base }) => ({ amount, base: convert.cloudBase(base) }));
}

function observationData(row: ObservationRow, convert: Converter): ObservationData {
  return {
    station: stationData(row.station, convert),
    observedAt: instant(row.observedAt),
    timeZone: row.station.timeZone,
    receivedAt: instant(row.receivedAt),
    textDescription: row.textDescription,
    rawMessage: row.rawMessage,
    ...measuredData(row, convert),
    presentWeather: row.presentWeather,
    clouds: cloudData(row.clouds, convert),
    quality: qualityOf(row),
    units: observationUnits(convert),
  };
}

type Quality = ObservationData['quality'];

/** `temperature_c` of `qc` is `temperature` of `quality`: the same columns, without their units. */
const qualityNames = measuredColumns.map((column) => ({
  name: column.replace(/(Pct|Deg|Kmh|Pa|Mm|C|M)$/, '') as keyof Quality,
  column: columnName(column),
}));

function qualityOf({ qc }: ObservationRow): Quality {
  const quality = {} as Quality;
  for (const { name, column } of qualityNames) quality[name] = qc[column] ?? null;
  return quality;
}
