import { celsius, fahrenheit, milesPerHour } from '../units.ts';
import { type FeelsLikeMethod } from './observation-fields.ts';
import {
  columnName,
  type MeasuredColumn,
  type MeasuredRow,
  type ObservationRow,
} from './observation-record.ts';

/**
 * Computes relative humidity in percent from temperature and dewpoint in °C.
 *
 * Magnus form with the coefficients of O. A. Alduchov and R. E. Eskridge, "Improved Magnus Form Approximation
 * of Saturation Vapor Pressure", Journal of Applied Meteorology 35 (1996).
 */
export function relativeHumidity(temperatureC: number, dewpointC: number): number {
  const magnus = (t: number): number => (17.625 * t) / (243.04 + t);
  return 100 * Math.exp(magnus(dewpointC) - magnus(temperatureC));
}

/**
 * Computes wind chill in °C from temperature in °C and wind in km/h. Returns null above 50 °F or with wind of
 * 3 mph or less, where it is not defined.
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
 * Computes the heat index in °C from temperature in °C and relative humidity in percent.
 *
 * L. P. Rothfusz, "The Heat Index Equation", NWS Southern Region technical attachment SR 90-23 (1990), with
 * the two adjustments of the Weather Prediction Center. Below 80 °F, the simple formula is used.
 */
export function heatIndex(temperatureC: number, relativeHumidityPct: number): number {
  const t = fahrenheit(temperatureC);
  const r = relativeHumidityPct;
  const simple = 0.5 * (t + 61 + (t - 68) * 1.2 + r * 0.094);
  return celsius(simple < 80 ? simple : regression(t, r) + adjustment(t, r));
}

/**
 * Returns the apparent temperature in °C and the method used, according to NWS Instruction 10-201: wind chill
 * at 50 °F or less with wind above 3 mph, heat index at 80 °F or more, and otherwise the temperature itself.
 * The temperature is also used if wind or humidity is unknown.
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

/** Corrects the regression, because dry air cools better and very moist air worse. */
function adjustment(t: number, r: number): number {
  if (r < 13 && t >= 80 && t <= 112) return -((13 - r) / 4) * Math.sqrt((17 - Math.abs(t - 95)) / 17);
  if (r > 85 && t >= 80 && t <= 87) return ((r - 85) / 10) * ((87 - t) / 5);
  return 0;
}

export interface CurrentConditions {
  /** The first station, in the given order, that has a value. */
  station: ObservationRow['station'];
  observedAt: Date;
  values: MeasuredRow;
  sky: ObservationRow | null;
  feelsLike: { value: number; method: FeelsLikeMethod } | null;
  /**
   * The observation that each value comes from. Wind, sky (text, weather, clouds) and each precipitation
   * window are each taken as a unit.
   */
  sources: Record<SourcedField, ObservationRow | null>;
}

/** The column that decides which observation supplies a field, or null for the sky, which has several. */
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

interface Window {
  now: Date;
  maxAgeMinutes: number;
}

const aheadMs = 5 * 60_000;
const derivableMs = 60 * 60_000;

/**
 * Combines the observations of several stations. Each field has its newest usable value within the window
 * `(now − maxAge, now + 5 min]`. An earlier station in `stations` takes precedence over a newer value.
 * Related values (wind; text, weather and clouds) come from one observation. Derived values take their inputs
 * from one station, at most an hour apart. Returns null if no observation lies in the window.
 */
export function currentConditions(
  observations: readonly ObservationRow[],
  stations: readonly string[],
  window: Window,
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

export function windowOf({ now, maxAgeMinutes }: Window): { after: Date; until: Date } {
  return {
    after: new Date(now.getTime() - maxAgeMinutes * 60_000),
    until: new Date(now.getTime() + aheadMs),
  };
}

function inOrder(
  observations: readonly ObservationRow[],
  stations: readonly string[],
  window: Window,
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
 * Computes humidity, heat index and wind chill from the other values of the answer, because reported ones
 * might not match these.
 */
function derive(values: MeasuredRow, sources: CurrentConditions['sources']): CurrentConditions['feelsLike'] {
  const { temperatureC: t, dewpointC: td } = values;
  const { temperature, dewpoint } = sources;
  if (t === null || temperature === null) return null;
  if (td !== null && dewpoint !== null && td <= t + 1 && belongTogether(temperature, dewpoint)) {
    // A dewpoint that exceeds the temperature by no more than the tolerance counts as saturation.
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

/** The physically possible range near the ground. */
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

/** MADIS letters for values that failed their checks (X, B) or are questionable (Q). */
const refusedLetters: ReadonlySet<string> = new Set(['X', 'Q', 'B']);

/**
 * Returns a column's value. Returns null if its quality letter rejects it, it is impossible near the ground,
 * or the dewpoint is above the temperature. Current conditions, observations and the map all use this
 * function.
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
