import {
  good,
  measured,
  newestFirst,
  observationUnits,
  partsOf,
  stationData,
  stationOf,
  converted,
  type UnitSystem,
} from './expected-observations.ts';
import { instantOf, momentOf, type Row, type Tables, textOf } from './rows.ts';

/** Current conditions as documented, field by field, in the units of the formulas: °F and miles per hour. */

const minute = 60_000;

export interface Conditions {
  data: object;
  asOf: number;
  /** The station that represents all of them. */
  station: string;
}

/** Whether an observation is current. */
export function isPresent(row: Row, now: number, maxAge: number): boolean {
  const at = momentOf(row, 'observed_at');
  return at > now - maxAge * minute && at <= now + 5 * minute;
}

/** null if nothing was observed. Without stations, the one of the newest observation is used. */
export function conditions(
  tables: Tables,
  { stations, now, maxAge, units }: { stations: string[]; now: number; maxAge: number; units: UnitSystem },
): Conditions | null {
  const present = newestFirst(tables.observations.filter((row) => isPresent(row, now, maxAge)));
  const asked = stations.length > 0 ? stations : present.slice(0, 1).map((row) => String(row['station_id']));
  const rows = asked.flatMap((station) => present.filter((row) => row['station_id'] === station));
  const [first] = rows;
  if (first === undefined) return null;

  const source = sourcesOf(tables, rows);
  const derived = derive(source);
  const from: Record<string, Row | null> = { ...source, relativeHumidity: derived.humiditySource };
  const used = Object.values(from).filter((row) => row !== null);
  const station = String((rows.find((row) => used.includes(row)) ?? first)['station_id']);
  const newest = used.length === 0 ? first : (newestFirst(used)[0] as Row);
  const sky = source.sky === null ? null : { row: source.sky, ...partsOf(tables, source.sky, units) };
  const values = { ...plainValues(source), ...derived.values };
  const data = {
    station: stationData(tables, station, units),
    observedAt: instantOf(newest, 'observed_at'),
    timeZone: textOf(stationOf(tables, station), 'time_zone'),
    textDescription: sky === null ? null : textOf(sky.row, 'text_description'),
    ...Object.fromEntries(
      measured.map(([name, , quantity]) => [name, converted(values[name] ?? null, quantity, units)]),
    ),
    presentWeather: sky?.presentWeather ?? [],
    clouds: sky?.clouds ?? [],
    feelsLike: converted(derived.feelsLike, 'celsius', units),
    feelsLikeMethod: derived.method,
    source: Object.fromEntries(
      Object.entries(from).map(([name, row]) => [
        name,
        row === null ? null : { station: row['station_id'], observedAt: instantOf(row, 'observed_at') },
      ]),
    ),
    units: observationUnits(units),
  };
  return { data, asOf: momentOf(newest, 'observed_at'), station };
}

type Sources = Record<
  | 'temperature'
  | 'dewpoint'
  | 'relativeHumidity'
  | 'wind'
  | 'altimeter'
  | 'seaLevelPressure'
  | 'visibility'
  | 'sky'
  | 'temperatureMax24h'
  | 'temperatureMin24h'
  | 'precipitation1h'
  | 'precipitation3h'
  | 'precipitation6h',
  Row | null
>;

function sourcesOf(tables: Tables, rows: readonly Row[]): Sources {
  const having = (name: string): Row | null => rows.find((row) => good(row, name) !== null) ?? null;
  const tellsSky = (row: Row): boolean => {
    const { presentWeather, clouds } = partsOf(tables, row, 'si');
    return row['text_description'] !== null || presentWeather.length + clouds.length > 0;
  };
  return {
    temperature: having('temperature'),
    dewpoint: having('dewpoint'),
    relativeHumidity: having('relativeHumidity'),
    wind: having('windSpeed'),
    altimeter: having('altimeter'),
    seaLevelPressure: having('seaLevelPressure'),
    visibility: having('visibility'),
    sky: rows.find(tellsSky) ?? null,
    temperatureMax24h: having('temperatureMax24h'),
    temperatureMin24h: having('temperatureMin24h'),
    precipitation1h: having('precipitation1h'),
    precipitation3h: having('precipitation3h'),
    precipitation6h: having('precipitation6h'),
  };
}

type Values = Record<string, number | null>;

function plainValues(source: Sources): Values {
  const own = Object.entries(source).flatMap(([name, row]) =>
    measured.some(([each]) => each === name) ? [[name, good(row, name)] as const] : [],
  );
  const speed = good(source.wind, 'windSpeed');
  const gust = good(source.wind, 'windGust');
  return {
    ...Object.fromEntries(own),
    windSpeed: speed,
    windDirection: speed === 0 ? null : good(source.wind, 'windDirection'),
    windGust: speed !== null && gust !== null && gust >= speed ? gust : null,
  };
}

interface Derived {
  values: Values;
  humiditySource: Row | null;
  feelsLike: number | null;
  method: string | null;
}

/** Humidity, wind chill and heat index, from values of one station that are at most an hour apart. */
function derive(source: Sources): Derived {
  const celsius = good(source.temperature, 'temperature');
  const reported = good(source.relativeHumidity, 'relativeHumidity');
  if (celsius === null)
    return { values: {}, humiditySource: source.relativeHumidity, feelsLike: null, method: null };
  const fits = (row: Row | null): boolean =>
    row?.['station_id'] === source.temperature?.['station_id'] &&
    Math.abs(momentOf(row as Row, 'observed_at') - momentOf(source.temperature as Row, 'observed_at')) <=
      60 * minute;
  const dewpoint = good(source.dewpoint, 'dewpoint');
  const isComputed = dewpoint !== null && fits(source.dewpoint) && dewpoint <= celsius + 1;
  const humiditySource = isComputed ? source.temperature : source.relativeHumidity;
  const relativeHumidity = isComputed ? Math.min(100, humidity(celsius, dewpoint)) : reported;

  const f = celsius * 1.8 + 32;
  const kmh = fits(source.wind) ? good(source.wind, 'windSpeed') : null;
  const mph = kmh === null ? null : kmh / 1.609344;
  const chill = mph !== null && f <= 50 && mph > 3 ? chillOf(f, mph) : null;
  const moist = fits(humiditySource) ? relativeHumidity : null;
  const heat = chill === null && f >= 80 && moist !== null ? heatOf(f, moist) : null;
  const inCelsius = (value: number | null): number | null => (value === null ? null : (value - 32) / 1.8);
  return {
    values: { relativeHumidity, windChill: inCelsius(chill), heatIndex: inCelsius(heat) },
    humiditySource,
    feelsLike: inCelsius(chill ?? heat ?? f),
    method: chill !== null ? 'wind_chill' : heat !== null ? 'heat_index' : 'temperature',
  };
}

/** The ratio of two vapour pressures (Magnus; Alduchov and Eskridge 1996). */
function humidity(celsius: number, dewpoint: number): number {
  const pressure = (t: number): number => 6.1094 * Math.E ** ((17.625 * t) / (t + 243.04));
  return (pressure(dewpoint) / pressure(celsius)) * 100;
}

function chillOf(f: number, mph: number): number {
  const v = Math.exp(0.16 * Math.log(mph));
  return 35.74 + 0.6215 * f + v * (0.4275 * f - 35.75);
}

/** Rothfusz, SR 90-23, as polynomials of the humidity. If the simple formula stays below 80, its result. */
function heatOf(f: number, r: number): number {
  const simple = 0.5 * f + 30.5 + 0.6 * f - 40.8 + 0.047 * r;
  if (simple < 80) return simple;
  const constant = -42.379 + f * (2.04901523 - 0.00683783 * f);
  const linear = 10.14333127 + f * (-0.22475541 + 0.00122874 * f);
  const square = -0.05481717 + f * (0.00085282 - 0.00000199 * f);
  const dry = r < 13 && f >= 80 && f <= 112 ? ((13 - r) / 4) * ((17 - Math.abs(f - 95)) / 17) ** 0.5 : 0;
  const wet = r > 85 && f >= 80 && f <= 87 ? ((r - 85) * (87 - f)) / 50 : 0;
  return constant + r * (linear + r * square) - dry + wet;
}
