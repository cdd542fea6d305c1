import { Rounded } from './leaves.ts';
import { cell, instantOf, momentOf, numberOf, type Row, sorted, type Tables, textOf } from './rows.ts';

/** The expected observations, computed from the raw rows by separate code. */

export type UnitSystem = 'si' | 'us';
export type Quantity =
  'celsius' | 'speed' | 'pressure' | 'distance' | 'rain' | 'percent' | 'degrees' | 'height';

/** Factor and offset for the stored unit, and the number of digits in the answer. */
const rules: Readonly<Record<UnitSystem, Readonly<Record<Quantity, [number, number, number]>>>> = {
  si: {
    celsius: [1, 0, 1],
    speed: [1, 0, 1],
    pressure: [1, 0, 0],
    distance: [1, 0, 0],
    rain: [1, 0, 1],
    percent: [1, 0, 0],
    degrees: [1, 0, 0],
    height: [1, 0, 0],
  },
  us: {
    celsius: [9 / 5, 32, 1],
    speed: [1 / 1.609344, 0, 1],
    pressure: [1 / 3386.389, 0, 2],
    distance: [1 / 1609.344, 0, 2],
    rain: [1 / 25.4, 0, 2],
    percent: [1, 0, 0],
    degrees: [1, 0, 0],
    height: [1 / 0.3048, 0, 0],
  },
};

export function converted(value: number | null, quantity: Quantity, units: UnitSystem): Rounded | null {
  const [factor, offset, digits] = rules[units][quantity];
  return value === null ? null : new Rounded(value * factor + offset, digits);
}

/** Name in the answer, column, quantity. */
export const measured: readonly [name: string, column: string, quantity: Quantity][] = [
  ['temperature', 'temperature_c', 'celsius'],
  ['dewpoint', 'dewpoint_c', 'celsius'],
  ['relativeHumidity', 'relative_humidity_pct', 'percent'],
  ['windDirection', 'wind_direction_deg', 'degrees'],
  ['windSpeed', 'wind_speed_kmh', 'speed'],
  ['windGust', 'wind_gust_kmh', 'speed'],
  ['altimeter', 'altimeter_pa', 'pressure'],
  ['seaLevelPressure', 'sea_level_pressure_pa', 'pressure'],
  ['visibility', 'visibility_m', 'distance'],
  ['temperatureMax24h', 'temperature_max_24h_c', 'celsius'],
  ['temperatureMin24h', 'temperature_min_24h_c', 'celsius'],
  ['precipitation1h', 'precipitation_1h_mm', 'rain'],
  ['precipitation3h', 'precipitation_3h_mm', 'rain'],
  ['precipitation6h', 'precipitation_6h_mm', 'rain'],
  ['heatIndex', 'heat_index_c', 'celsius'],
  ['windChill', 'wind_chill_c', 'celsius'],
];

const columnOf = new Map(measured.map(([name, column]) => [name, column]));

/** A number that its quality letter does not reject, and that is possible. */
export function good(row: Row | null, name: string): number | null {
  const column = columnOf.get(name) ?? name;
  const value = row === null ? null : numberOf(row, column);
  if (row === null || value === null) return null;
  const letter = (row['qc'] as Readonly<Record<string, string>>)[column];
  if (letter === 'X' || letter === 'Q' || letter === 'B') return null;
  if (/^(temperature|dewpoint)/.test(name) && !(value >= -90 && value <= 60)) return null;
  if (/^(altimeter|seaLevel)/.test(name) && !(value >= 85_000 && value <= 109_000)) return null;
  if (/^wind(Speed|Gust)/.test(name) && value > 410) return null;
  if (name === 'dewpoint') {
    const beside = good(row, 'temperature');
    if (beside !== null && value > beside + 1) return null;
  }
  return value;
}

export function observationUnits(units: UnitSystem): object {
  const [temperature, windSpeed, pressure, visibility, precipitation, height] =
    units === 'si' ? ['degC', 'km/h', 'Pa', 'm', 'mm', 'm'] : ['degF', 'mph', 'inHg', 'mi', 'in', 'ft'];
  return {
    temperature,
    windSpeed,
    windDirection: 'deg',
    pressure,
    visibility,
    precipitation,
    relativeHumidity: '%',
    cloudBase: height,
    elevation: height,
  };
}

export function stationOf({ stations }: Tables, id: string): Row {
  const found = stations.find((row) => row['station_id'] === id);
  if (found === undefined) throw new TypeError(`there is no station ${id}`);
  return found;
}

export function stationData(tables: Tables, id: string, units: UnitSystem): object {
  const row = stationOf(tables, id);
  return {
    id,
    name: textOf(row, 'name'),
    latitude: numberOf(row, 'latitude_deg'),
    longitude: numberOf(row, 'longitude_deg'),
    elevation: converted(numberOf(row, 'elevation_m'), 'height', units),
  };
}

/** The parts of an observation that are in separate tables. */
export function partsOf(
  tables: Tables,
  observation: Row,
  units: UnitSystem,
): { presentWeather: object[]; clouds: object[] } {
  const belonging = (rows: readonly Row[]): Row[] =>
    sorted(
      rows.filter(
        (row) =>
          row['station_id'] === observation['station_id'] &&
          row['observed_at'] === observation['observed_at'],
      ),
      (row) => numberOf(row, 'position') ?? NaN,
    );
  return {
    presentWeather: belonging(tables.observation_weather).map((row) => ({
      intensity: textOf(row, 'intensity'),
      modifier: textOf(row, 'modifier'),
      phenomenon: textOf(row, 'phenomenon'),
      raw: textOf(row, 'raw'),
      inVicinity: cell(row, 'in_vicinity'),
    })),
    clouds: belonging(tables.observation_clouds).map((row) => ({
      amount: textOf(row, 'amount'),
      base: converted(numberOf(row, 'base_m'), 'height', units),
    })),
  };
}

export function pastObservation(tables: Tables, row: Row, units: UnitSystem): object {
  const qc = cell(row, 'qc') as Readonly<Record<string, string>>;
  return {
    observedAt: instantOf(row, 'observed_at'),
    receivedAt: instantOf(row, 'received_at'),
    textDescription: textOf(row, 'text_description'),
    rawMessage: textOf(row, 'raw_message'),
    ...Object.fromEntries(
      measured.map(([name, , quantity]) => [name, converted(good(row, name), quantity, units)]),
    ),
    ...partsOf(tables, row, units),
    quality: Object.fromEntries(measured.map(([name, column]) => [name, qc[column] ?? null])),
  };
}

export function observation(tables: Tables, row: Row, units: UnitSystem): object {
  const id = String(row['station_id']);
  return {
    station: stationData(tables, id, units),
    timeZone: textOf(stationOf(tables, id), 'time_zone'),
    ...pastObservation(tables, row, units),
    units: observationUnits(units),
  };
}

/** The newest first. If several are equally new, the station that comes first. */
export function newestFirst(rows: readonly Row[]): Row[] {
  return sorted(
    rows,
    (row) => -momentOf(row, 'observed_at'),
    (row) => String(row['station_id']),
  );
}

export const hasNumber = (row: Row): boolean => measured.some(([name]) => good(row, name) !== null);
