import type { Features } from '../family.ts';
import { type Converter, observationUnits } from '../units.ts';
import { instant, instantOrNull, pointGeometry } from '../values.ts';
import {
  type CloudData,
  type MeasuredData,
  type ObservationData,
  type PastObservationData,
  type PresentWeatherData,
  type StationData,
} from './observation-fields.ts';

/** The measured values of an observation, in the units of the table. */
export const measuredColumns = [
  'temperatureC',
  'dewpointC',
  'relativeHumidityPct',
  'windDirectionDeg',
  'windSpeedKmh',
  'windGustKmh',
  'altimeterPa',
  'seaLevelPressurePa',
  'visibilityM',
  'temperatureMax24hC',
  'temperatureMin24hC',
  'precipitation1hMm',
  'precipitation3hMm',
  'precipitation6hMm',
  'heatIndexC',
  'windChillC',
] as const;

export type MeasuredColumn = (typeof measuredColumns)[number];
export type MeasuredRow = Record<MeasuredColumn, number | null>;

export interface StationRow {
  stationId: string;
  name: string;
  /** null if the value in the table is invalid. This is also how `timeZone` and `receivedAt` work. */
  latitudeDeg: number | null;
  longitudeDeg: number | null;
  elevationM: number | null;
  timeZone: string | null;
}

export interface ObservationRow extends MeasuredRow {
  observedAt: Date;
  receivedAt: Date | null;
  textDescription: string | null;
  rawMessage: string | null;
  /** Quality letters by column name: `{"temperature_c": "V"}`. */
  qc: Record<string, string>;
  station: StationRow;
  presentWeather: PresentWeatherData[];
  clouds: CloudData[];
}

/** Converts `temperatureMax24hC` to `temperature_max_24h_c`, as it is called in the table and in `qc`. */
export function columnName(column: MeasuredColumn): string {
  return column.replace(/(?<=[a-z])(?=[0-9])|(?=[A-Z])/g, '_').toLowerCase();
}

/**
 * Converts observations to the form in which they are returned. Values are converted from the stored units,
 * and rounded only once.
 */

type Quality = ObservationData['quality'];

/** Returns the station as a single item. */
export function stationFeatures(record: { station: StationData; units: object }): Features {
  const { units, ...properties } = record;
  const { id, latitude, longitude } = record.station;
  return { about: { units }, places: [{ id, geometry: pointGeometry(latitude, longitude), properties }] };
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

export function observationData(row: ObservationRow, convert: Converter): ObservationData {
  const { observedAt, ...rest } = pastObservationData(row, convert);
  return {
    station: stationData(row.station, convert),
    observedAt,
    timeZone: row.station.timeZone,
    ...rest,
    units: observationUnits(convert),
  };
}

export function pastObservationData(row: ObservationRow, convert: Converter): PastObservationData {
  return {
    observedAt: instant(row.observedAt),
    receivedAt: instantOrNull(row.receivedAt),
    textDescription: row.textDescription,
    rawMessage: row.rawMessage,
    ...measuredData(row, convert),
    presentWeather: row.presentWeather,
    clouds: cloudData(row.clouds, convert),
    quality: qualityOf(row),
  };
}

/** The names that are used in `quality`. They have no units: `temperature_c` in `qc` is `temperature`. */
const qualityNames = measuredColumns.map((column) => ({
  name: column.replace(/(Pct|Deg|Kmh|Pa|Mm|C|M)$/, '') as keyof Quality,
  column: columnName(column),
}));

function qualityOf({ qc }: ObservationRow): Quality {
  const quality = {} as Quality;
  for (const { name, column } of qualityNames) quality[name] = qc[column] ?? null;
  return quality;
}
