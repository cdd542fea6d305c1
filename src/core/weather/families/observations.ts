import { and, desc, eq, getTableColumns, sql, type SQL } from 'drizzle-orm';
import type { Queries, WeatherDatabase } from '../database.ts';
import { instant } from '../instant.ts';
import {
  columnName,
  measuredColumns,
  type MeasuredRow,
  type ObservationRow,
  type StationRow,
} from '../observation-row.ts';
import type { ObservationQuery } from '../queries.ts';
import type { WeatherReader } from '../reader.ts';
import type {
  CloudData,
  MeasuredData,
  ObservationData,
  PresentWeatherData,
  StationData,
} from '../records.ts';
import { observationClouds, observations, observationWeather, stations } from '../tables.ts';
import { converterOf, observationUnits, type Converter } from '../units.ts';

/**
 * The newest observation of a station, or of any. Both statements are built once: that took longer than the
 * database takes to answer.
 */
export function observationsReader(database: WeatherDatabase): WeatherReader['observations'] {
  const statements = new WeakMap<Queries, ReturnType<typeof prepareLatest>>();
  const prepared = (queries: Queries): ReturnType<typeof prepareLatest> => {
    const known = statements.get(queries) ?? prepareLatest(queries);
    statements.set(queries, known);
    return known;
  };
  return async ({ station, units }: ObservationQuery) => {
    const [row] = await database.one(async (queries) => {
      const { ofAny, ofStation } = prepared(queries);
      return station === null ? ofAny.execute() : ofStation.execute({ station });
    });
    if (row === undefined) return { data: null, lastModified: null };
    return { data: observationData(row, converterOf(units)), lastModified: row.receivedAt };
  };
}

function prepareLatest(queries: Queries) {
  return {
    ofAny: selectObservations(queries)
      .orderBy(desc(observations.observedAt), observations.stationId)
      .limit(1)
      .prepare('observations_of_any'),
    ofStation: selectObservations(queries, eq(observations.stationId, sql.placeholder('station')))
      .orderBy(desc(observations.observedAt))
      .limit(1)
      .prepare('observations_of_station'),
  };
}

const ownColumns = getTableColumns(observations);
const belongs = (table: typeof observationWeather | typeof observationClouds): SQL | undefined =>
  and(eq(table.stationId, observations.stationId), eq(table.observedAt, observations.observedAt));

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
    .from(observations)
    .innerJoin(stations, eq(stations.stationId, observations.stationId))
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
