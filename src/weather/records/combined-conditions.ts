import { celsius, fahrenheit, milesPerHour } from '../units.ts';
import { type FeelsLikeMethod } from './observation-fields.ts';
import {
  columnName,
  type MeasuredColumn,
  type MeasuredRow,
  type ObservationRow,
} from './observation-record.ts';

/**
 * Calculates the relative humidity in percent from the temperature and dew point in °C.
 *
 * Uses the Magnus formula with the coefficients from O. A. Alduchov and R. E. Eskridge, "Improved Magnus Form
 * Approximation of Saturation Vapor Pressure", Journal of Applied Meteorology 35 (1996).
 */
export function relativeHumidity(temperatureC: number, dewpointC: number): number {
  const magnus = (t: number): number => (17.625 * t) / (243.04 + t);
  return 100 * Math.exp(magnus(dewpointC) - magnus(temperatureC));
}

/**
 * Calculates the wind chill in °C from the temperature in °C and the wind speed in km/h. Returns null if it
 * is not defined, which is the case above 50 °F or if the wind is 3 mph or less.
 *
 * Uses the 2001 formula of the National Weather Service and Environment Canada, in °F and mph.
 */
export function windChill(temperatureC: number, windSpeedKmh: number): number | null {
  const t = fahrenheit(temperatureC);
  const v = milesPerHour(windSpeedKmh);
  if (!chills(t, v)) return null;
  const power = v ** 0.16;
  return celsius(35.74 + 0.6215 * t - 35.75 * power + 0.4275 * t * power);
}

/**
 * Calculates the heat index in °C from the temperature in °C and the relative humidity in percent.
 *
 * See L. P. Rothfusz, "The Heat Index Equation", NWS Southern Region technical attachment SR 90-23 (1990).
 * Includes the two adjustments of the Weather Prediction Center, and its simpler formula below 80 °F.
 */
export function heatIndex(temperatureC: number, relativeHumidityPct: number): number {
  const t = fahrenheit(temperatureC);
  const r = relativeHumidityPct;
  const simple = 0.5 * (t + 61 + (t - 68) * 1.2 + r * 0.094);
  return celsius(simple < 80 ? simple : regression(t, r) + adjustment(t, r));
}

/**
 * Returns what the temperature feels like in °C, and how it was calculated. According to NWS Instruction
 * 10-201, this is the wind chill if it is 50 °F or less and the wind is above 3 mph, the heat index if it is
 * 80 °F or more, and the temperature itself otherwise. If the wind or the humidity is unknown, the
 * temperature is used.
 */
export function feelsLike(
  temperatureC: number,
  windSpeedKmh: number | null,
  relativeHumidityPct: number | null,
): { value: number; method: FeelsLikeMethod } {
  const chill = windSpeedKmh === null ? null : windChill(temperatureC, windSpeedKmh);
  if (chill !== null) return { value: chill, method: 'wind_chill' };
  if (fahrenheit(temperatureC) >= 80 && relativeHumidityPct !== null)
    return { value: heatIndex(temperatureC, relativeHumidityPct), method: 'heat_index' };
  return { value: temperatureC, method: 'temperature' };
}

function chills(fahrenheit: number, mph: number): boolean {
  return fahrenheit <= 50 && mph > 3;
}

function regression(t: number, r: number): number {
  return (
    -42.379 +
    2.04901523 * t +
    10.14333127 * r -
    0.22475541 * t * r -
    0.00683783 * t * t -
    0.05481717 * r * r +
    0.00122874 * t * t * r +
    0.00085282 * t * r * r -
    0.00000199 * t * t * r * r
  );
}

/** Adjusts the heat index for dry air, which cools better, and for very humid air, which cools worse. */
function adjustment(t: number, r: number): number {
  if (r < 13 && t >= 80 && t <= 112) return -((13 - r) / 4) * Math.sqrt((17 - Math.abs(t - 95)) / 17);
  if (r > 85 && t >= 80 && t <= 87) return ((r - 85) / 10) * ((87 - t) / 5);
  return 0;
}

export interface CurrentConditions {
  /** The first of the given stations that has a value. */
  station: ObservationRow['station'];
  observedAt: Date;
  values: MeasuredRow;
  sky: ObservationRow | null;
  feelsLike: { value: number; method: FeelsLikeMethod } | null;
  /**
   * The observation that each value comes from. Wind speed, direction and gusts always come from the same
   * one. The same is true of the text, weather and clouds, and of the values for a precipitation period.
   */
  sources: Record<SourcedField, ObservationRow | null>;
}

/**
 * The column that determines which observation is used for a field. null for the sky, which depends on
 * several columns.
 */
const sourceColumns = {
  temperature: 'temperatureC',
  dewpoint: 'dewpointC',
  relativeHumidity: 'relativeHumidityPct',
  wind: 'windSpeedKmh',
  altimeter: 'altimeterPa',
  seaLevelPressure: 'seaLevelPressurePa',
  visibility: 'visibilityM',
  sky: null,
  temperatureMax24h: 'temperatureMax24hC',
  temperatureMin24h: 'temperatureMin24hC',
  precipitation1h: 'precipitation1hMm',
  precipitation3h: 'precipitation3hMm',
  precipitation6h: 'precipitation6hMm',
} as const satisfies Record<string, MeasuredColumn | null>;
type SourcedField = keyof typeof sourceColumns;

interface AgeWindow {
  now: Date;
  maxAgeMinutes: number;
}

const aheadMs = 5 * 60_000;
const derivableMs = 60 * 60_000;

/**
 * Combines observations from several stations into current conditions. For each field, it uses the latest
 * valid value from the first station in `stations` that has one between `now − maxAge` and `now + 5 min`.
 * Values that belong together, such as those for wind, come from one observation. Values are only derived
 * from inputs of the same station that are at most an hour apart. Returns null if none of the observations is
 * recent enough.
 */
export function currentConditions(
  observations: readonly ObservationRow[],
  stations: readonly string[],
  window: AgeWindow,
): CurrentConditions | null {
  const ordered = inOrder(observations, stations, window);
  const [newest] = ordered;
  if (newest === undefined) return null;
  const sources = chooseSources(ordered);
  const values = valuesOf(sources);
  const felt = derive(values, sources);
  const given = Object.values(sources).filter((source) => source !== null);
  const first = ordered.find((observation) => given.includes(observation)) ?? newest;
  return {
    station: first.station,
    observedAt: given.reduce(
      (latest, { observedAt }) => (observedAt > latest ? observedAt : latest),
      first.observedAt,
    ),
    values,
    sky: sources.sky,
    feelsLike: felt,
    sources,
  };
}

export function windowOf({ now, maxAgeMinutes }: AgeWindow): { after: Date; until: Date } {
  return {
    after: new Date(now.getTime() - maxAgeMinutes * 60_000),
    until: new Date(now.getTime() + aheadMs),
  };
}

function inOrder(
  observations: readonly ObservationRow[],
  stations: readonly string[],
  window: AgeWindow,
): ObservationRow[] {
  const { after, until } = windowOf(window);
  const priority = (row: ObservationRow): number => stations.indexOf(row.station.stationId);
  return observations
    .filter((row) => row.observedAt > after && row.observedAt <= until && priority(row) >= 0)
    .sort((a, b) => priority(a) - priority(b) || b.observedAt.getTime() - a.observedAt.getTime());
}

function chooseSources(ordered: ObservationRow[]): CurrentConditions['sources'] {
  const supplies = (row: ObservationRow, column: MeasuredColumn | null): boolean =>
    column === null ? tellsSky(row) : usable(row, column) !== null;
  const sources = Object.entries(sourceColumns).map(([field, column]) => [
    field,
    ordered.find((row) => supplies(row, column)) ?? null,
  ]);
  return Object.fromEntries(sources) as CurrentConditions['sources'];
}

function valuesOf(sources: CurrentConditions['sources']): MeasuredRow {
  const of = (source: ObservationRow | null, column: MeasuredColumn): number | null =>
    source === null ? null : usable(source, column);
  const speed = of(sources.wind, 'windSpeedKmh');
  const gust = of(sources.wind, 'windGustKmh');
  return {
    temperatureC: of(sources.temperature, 'temperatureC'),
    dewpointC: of(sources.dewpoint, 'dewpointC'),
    relativeHumidityPct: of(sources.relativeHumidity, 'relativeHumidityPct'),
    windDirectionDeg: speed === 0 ? null : of(sources.wind, 'windDirectionDeg'),
    windSpeedKmh: speed,
    windGustKmh: gust === null || speed === null || gust < speed ? null : gust,
    altimeterPa: of(sources.altimeter, 'altimeterPa'),
    seaLevelPressurePa: of(sources.seaLevelPressure, 'seaLevelPressurePa'),
    visibilityM: of(sources.visibility, 'visibilityM'),
    temperatureMax24hC: of(sources.temperatureMax24h, 'temperatureMax24hC'),
    temperatureMin24hC: of(sources.temperatureMin24h, 'temperatureMin24hC'),
    precipitation1hMm: of(sources.precipitation1h, 'precipitation1hMm'),
    precipitation3hMm: of(sources.precipitation3h, 'precipitation3hMm'),
    precipitation6hMm: of(sources.precipitation6h, 'precipitation6hMm'),
    heatIndexC: null,
    windChillC: null,
  };
}

/**
 * Calculates the humidity, the heat index and the wind chill, instead of using reported values, which might
 * not fit the other values in the response.
 */
function derive(values: MeasuredRow, sources: CurrentConditions['sources']): CurrentConditions['feelsLike'] {
  const { temperatureC: t, dewpointC: td } = values;
  const { temperature, dewpoint } = sources;
  if (t === null || temperature === null) return null;
  if (td !== null && dewpoint !== null && td <= t + 1 && belongTogether(temperature, dewpoint)) {
    // A dew point above the temperature is treated as saturated air if the difference is within the
    // tolerance.
    values.relativeHumidityPct = Math.min(100, relativeHumidity(t, td));
    sources.relativeHumidity = temperature;
  }
  const humidity = belongTogether(temperature, sources.relativeHumidity) ? values.relativeHumidityPct : null;
  const wind = belongTogether(temperature, sources.wind) ? values.windSpeedKmh : null;
  const felt = feelsLike(t, wind, humidity);
  values.windChillC = wind === null ? null : windChill(t, wind);
  if (felt.method === 'heat_index' && humidity !== null) values.heatIndexC = heatIndex(t, humidity);
  return felt;
}

function belongTogether(a: ObservationRow, b: ObservationRow | null): boolean {
  return (
    b !== null &&
    a.station.stationId === b.station.stationId &&
    Math.abs(a.observedAt.getTime() - b.observedAt.getTime()) <= derivableMs
  );
}

const temperatureBounds: [number, number] = [-90, 60];
const pressureBounds: [number, number] = [85_000, 109_000];
const windBounds: [number, number] = [0, 410];

/** The physically possible range of each quantity near the ground. */
const bounds: Partial<Record<MeasuredColumn, [number, number]>> = {
  temperatureC: temperatureBounds,
  dewpointC: temperatureBounds,
  temperatureMax24hC: temperatureBounds,
  temperatureMin24hC: temperatureBounds,
  altimeterPa: pressureBounds,
  seaLevelPressurePa: pressureBounds,
  windSpeedKmh: windBounds,
  windGustKmh: windBounds,
  heatIndexC: [-90, 90],
  windChillC: [-120, 60],
};

/** Quality letters for values that failed (X, B) or are doubtful (Q) according to MADIS. */
const refusedLetters: ReadonlySet<string> = new Set(['X', 'Q', 'B']);

/**
 * Returns a value from an observation if it can be used. Returns null if its quality letter marks it as
 * wrong, if it is physically impossible near the ground, or if the dew point is above the temperature.
 * Current conditions, observations and the map must all use this function.
 */
export function usable(row: MeasuredRow & Pick<ObservationRow, 'qc'>, column: MeasuredColumn): number | null {
  const value = row[column];
  if (value === null || refusedLetters.has(row.qc[columnName(column)] ?? '')) return null;
  const [min, max] = bounds[column] ?? [-Infinity, Infinity];
  if (value < min || value > max) return null;
  if (column !== 'dewpointC') return value;
  const temperature = usable(row, 'temperatureC');
  return temperature !== null && value > temperature + 1 ? null : value;
}

function tellsSky({ textDescription, presentWeather, clouds }: ObservationRow): boolean {
  return textDescription !== null || presentWeather.length > 0 || clouds.length > 0;
}
