import { and, desc, eq, lte, sql } from 'drizzle-orm';
import { identifier, type ValuesOf } from '../../parameters.ts';
import type { Queries } from '../database/database.ts';
import {
  newNotes,
  noReading,
  reading,
  weatherFamily,
  type Features,
  type Reading,
  type WeatherSource,
} from '../family.ts';
import { pointGeometry } from '../geometry.ts';
import { instant, instantOrNull, type Instant } from '../instant.ts';
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
import { firstClean, type Page } from '../rows/first-clean.ts';
import { converterOf, observationUnits, type Converter } from '../units.ts';
import { observationTable } from './observation-columns.ts';
import {
  cleanedObservation,
  observationClouds,
  observationRows,
  observationWeather,
  selectObservations,
  stations,
} from './observation-tables.ts';

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
  timeZone: string | null;
  receivedAt: Instant | null;
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
  latitude: number | null;
  longitude: number | null;
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
  features: stationFeatures,
  table: observationTable,
  read: readObservation,
});

/** One place: the station's. */
export function stationFeatures<T extends { station: StationData; units: object }>(record: T): Features {
  const { units, ...properties } = record;
  const { id, latitude, longitude } = record.station;
  return { about: { units }, places: [{ id, geometry: pointGeometry(latitude, longitude), properties }] };
}

async function readObservation(
  { database, clock }: WeatherSource,
  { station, units }: ValuesOf<typeof parameters>,
): Promise<Reading<ObservationData>> {
  const now = clock.now();
  const notes = newNotes();
  const row = await firstClean(
    now,
    (page) => database.one(async (queries) => pageOf(queries, station, page)),
    (each) => cleanedObservation(each, notes.note, now),
  );
  if (row === null) return noReading(notes);
  const found = {
    data: observationData(row, converterOf(units)),
    lastModified: row.receivedAt,
    asOf: row.observedAt,
  };
  return reading(found, notes);
}

function pageOf(queries: Queries, station: string | null, { limit, offset, until }: Page) {
  const { ofAny, ofStation } = prepared(queries);
  if (offset === 0 && until === null)
    return station === null ? ofAny.execute() : ofStation.execute({ station });
  const isOf = station === null ? undefined : eq(observationRows.stationId, station);
  return selectObservations(
    queries,
    and(isOf, until === null ? undefined : lte(observationRows.observedAt, until)),
  )
    .orderBy(desc(observationRows.observedAt), observationRows.stationId)
    .limit(limit)
    .offset(offset);
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
    receivedAt: instantOrNull(row.receivedAt),
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
