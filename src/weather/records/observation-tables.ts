import { and, eq, getTableColumns, inArray, type SQL, sql } from 'drizzle-orm';
import { boolean, doublePrecision, jsonb, pgTable, smallint, text } from 'drizzle-orm/pg-core';
import { finding, WaybillError } from '../../core/lib/errors.ts';
import {
  cleanerOf,
  type NoteRejection,
  numberCheck,
  oneOf,
  pastCheck,
  textsCheck,
} from '../database/cleaner.ts';
import { instantColumn, presentUntil } from '../database/columns.ts';
import type { Queries } from '../database/database.ts';
import { stations } from '../places/place-lists.ts';
import { type Cell, type Column, fields, type UtcTime, weatherTable } from '../values.ts';
import { usable } from './combined-conditions.ts';
import { type CloudData, type PresentWeatherData } from './observation-fields.ts';
import {
  measuredColumns,
  type MeasuredRow,
  type ObservationRow,
  type StationRow,
} from './observation-record.ts';

const measured = {
  temperature: 'temperature',
  dewpoint: 'temperature',
  relativeHumidity: 'relativeHumidity',
  windDirection: 'windDirection',
  windSpeed: 'windSpeed',
  windGust: 'windSpeed',
  altimeter: 'pressure',
  seaLevelPressure: 'pressure',
  visibility: 'visibility',
  temperatureMax24h: 'temperature',
  temperatureMin24h: 'temperature',
  precipitation1h: 'precipitation',
  precipitation3h: 'precipitation',
  precipitation6h: 'precipitation',
  heatIndex: 'temperature',
  windChill: 'temperature',
} as const;

/** The input for a row of the table, which is an observation on its own or one in a list. */
interface TableRow extends PlacelessRow, PlaceOfRow {}

interface PlaceOfRow {
  station: { id: string; name: string; latitude: Cell; longitude: Cell; elevation: Cell };
  timeZone: string | null;
}

interface PlacelessRow extends Readonly<Record<keyof typeof measured, number | null>> {
  observedAt: UtcTime;
  textDescription: string | null;
  rawMessage: string | null;
  presentWeather: readonly PresentWeatherData[];
  clouds: readonly CloudData[];
}

const columns: readonly Column<TableRow>[] = [
  { name: 'station', of: ({ station }) => station.id },
  { name: 'name', of: ({ station }) => station.name },
  { name: 'latitude', of: ({ station }) => station.latitude },
  { name: 'longitude', of: ({ station }) => station.longitude },
  { name: 'elevation', quantity: 'elevation', of: ({ station }) => station.elevation },
  ...fields({ observedAt: null, timeZone: null }),
  ...fields(measured),
  { name: 'presentWeather', of: ({ presentWeather }) => presentWeather.map(inWords).join('; ') },
  { name: 'clouds', quantity: 'cloudBase', of: ({ clouds }) => clouds.map(layer).join('; ') },
  ...fields({ textDescription: null, rawMessage: null }),
];

/** A single observation, a list for several stations, or a list for one station. */
type ObservationTableData =
  TableRow | { observations: readonly TableRow[] } | (PlaceOfRow & { observations: readonly PlacelessRow[] });

/** One row per observation. The CSV does not include quality letters. */
export const observationTable = weatherTable(columns, (data: ObservationTableData) => {
  if (!('observations' in data)) return [data];
  if (!('station' in data)) return data.observations;
  const { station, timeZone, observations } = data;
  return observations.map((row): TableRow => ({ ...row, station, timeZone }));
});

/**
 * Describes weather in words: `light freezing rain`. The code, `-FZRA`, would be a formula in a spreadsheet.
 */
function inWords({ intensity, modifier, phenomenon, inVicinity }: PresentWeatherData): string {
  const words = [intensity, modifier, phenomenon, inVicinity ? 'in vicinity' : null];
  return words
    .filter((word) => word !== null)
    .join(' ')
    .replaceAll('_', ' ');
}

function layer({ amount, base }: CloudData): string {
  return base === null ? amount : `${amount} ${base}`;
}

/** Selects observations from the database and validates them. */

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
// Observations do not need the column `state`, which older databases do not have.
const stationColumns = { ...getTableColumns(stations), state: sql<null>`null` };
const belongs = (table: typeof observationWeather | typeof observationClouds): SQL | undefined =>
  and(eq(table.stationId, observationRows.stationId), eq(table.observedAt, observationRows.observedAt));

/** A range of times. It does not include `after`, but it does include the other end. */
interface ObservedWithin {
  after: Date;
  until: Date;
}

/**
 * Returns those stations that have an observation in the time range. If `isMeasured` is set, it has to
 * contain at least one number.
 */
export async function stationsHaving(
  queries: Queries,
  ids: readonly string[],
  { after, until }: ObservedWithin,
  { isMeasured }: { isMeasured: boolean },
): Promise<ReadonlySet<string>> {
  const measured = sql.join(
    measuredColumns.map((column) => sql`o.${sql.identifier(observationRows[column].name)}`),
    sql`, `,
  );
  const rows = await queries
    .select({ stationId: stations.stationId })
    .from(stations)
    .where(
      and(
        inArray(stations.stationId, [...ids]),
        sql`exists (select from ${observationRows} as o where o.station_id = ${stations}.station_id
          and o.observed_at > ${after.toISOString()}::timestamptz and o.observed_at <= ${until.toISOString()}::timestamptz
          ${isMeasured ? sql`and num_nonnulls(${measured}) > 0` : sql``})`,
      ),
    );
  return new Set(rows.map(({ stationId }) => stationId));
}

/**
 * Throws `invalid_parameter` if a station does not exist. If the table is empty, accepts any station, unless
 * `isNeeded` is set because the response is about the station itself.
 */
export async function requireStations(
  queries: Queries,
  asked: readonly string[],
  { isNeeded = false }: { isNeeded?: boolean } = {},
): Promise<void> {
  if (asked.length === 0) return;
  const rows = await queries
    .select({ stationId: stations.stationId })
    .from(stations)
    .where(inArray(stations.stationId, [...asked]));
  const known = new Set(rows.map(({ stationId }) => stationId));
  const unknown = asked.filter((station) => !known.has(station));
  if (unknown.length === 0) return;
  if (
    !isNeeded &&
    (await queries.select({ stationId: stations.stationId }).from(stations).limit(1)).length === 0
  )
    return;
  const message = `must name stations that GET /stations lists, such as KNYC; unknown: ${unknown.join(', ')}`;
  throw new WaybillError('invalid_parameter', `"station" ${message}`, {
    hint: 'find a station with GET /stations?q=NAME or GET /stations?near=40.78,-73.97',
    findings: [finding('error', 'unknown_station', message, { pointer: 'station' })],
  });
}

/**
 * Selects observations along with their stations, weather and clouds. This is a single statement, so that all
 * of it is from the same snapshot.
 */
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
    .select({ ...ownColumns, station: stationColumns, presentWeather: weather, clouds })
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

/** Returns a station. Throws an error if it does not exist. */
export async function stationOf(
  queries: Queries,
  stationId: string,
  note: NoteRejection,
): Promise<StationRow> {
  const [row] = await queries.select(stationColumns).from(stations).where(eq(stations.stationId, stationId));
  const station = row === undefined ? null : cleanStation(row, note);
  if (station === null) throw new TypeError('the station has gone within a snapshot');
  return station;
}

type SelectedObservation = Awaited<ReturnType<typeof selectObservations>>[number];

/**
 * Validates an observation. Invalid parts are removed and reported through `note`. Returns null if the
 * observation as a whole is invalid, for example because its time is after `now`.
 */
export function cleanedObservation(
  row: SelectedObservation,
  note: NoteRejection,
  now: Date,
): ObservationRow | null {
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
  const whole = { ...own, qc: own.qc ?? {}, station, clouds, presentWeather };
  return { ...whole, ...refusedOf(whole) };
}

/**
 * Returns null for each value that cannot be used. The quality letter is kept, so that readers can see the
 * reason.
 */
function refusedOf(row: ObservationRow): Partial<MeasuredRow> {
  const refused = measuredColumns.filter((column) => row[column] !== null && usable(row, column) === null);
  return Object.fromEntries(refused.map((column) => [column, null]));
}
