import { isRecord } from '../../../core/lib/json-document.ts';
import { timeZoneAt } from '../../places/position.ts';
import { middleOf } from '../../shape.ts';
import { outlineOf } from './places.ts';
import { quantity } from './quantities.ts';
import {
  BrokenDocument,
  instantOf,
  itemsOf,
  type Json,
  type Loadable,
  type Note,
  NothingToLoad,
  readEach,
  type Row,
  textOf,
} from './rows.ts';

/**
 * Reads a gridpoint forecast. The grid point is not in the document itself, so it is taken from the file
 * name: `OKX_33_35_hourly.json`.
 */
export function forecastOf(feature: Json, fileName: string, leftOut: string[]): Loadable {
  const p = isRecord(feature['properties']) ? feature['properties'] : {};
  const [, office, x, y] = /^([A-Z]{3})_(\d+)_(\d+)_/.exec(fileName) ?? [];
  if (office === undefined || x === undefined || y === undefined)
    throw new NothingToLoad('the file of a forecast is named OFFICE_X_Y_….json');
  const note: Note = (message) => leftOut.push(message);
  const periods = readEach(itemsOf(p['periods']), 'properties.periods', leftOut, periodOf);
  const valid_from = periods[0]?.['starts_at'];
  const valid_until = periods.at(-1)?.['ends_at'];
  const location_id = `${office}/${x},${y}`;
  const [latitude_deg, longitude_deg] = cellMiddle(feature['geometry'], note);
  const time_zone = timeZoneAt(latitude_deg, longitude_deg);
  const generated_at = instantOf(p['generatedAt'], 'generatedAt', note);
  return {
    family: 'forecast',
    location: { location_id, latitude_deg, longitude_deg, time_zone },
    run: {
      kind: textOf(p['forecastGenerator'])?.startsWith('Hourly') ? 'hourly' : 'narrative',
      location_id,
      office,
      grid_x: Number(x),
      grid_y: Number(y),
      time_zone,
      generated_at,
      updated_at: instantOf(p['updateTime'], 'updateTime', note),
      valid_from: instantOf(valid_from, 'the start of properties.periods'),
      valid_until: instantOf(valid_until, 'the end of properties.periods'),
      elevation_m: quantity(p['elevation'], 'elevation_m', 'properties.elevation', note),
      received_at: generated_at,
    },
    periods,
  };
}

/**
 * Reads a forecast period. A period without valid times is left out. Other invalid fields are set to null and
 * reported through `note`.
 */
function periodOf(period: Json, note: Note): Row {
  const [low, high] = windOf(period['windSpeed'], 'windSpeed', note);
  const [, gust] = windOf(period['windGust'], 'windGust', note);
  const read = (name: string, column: string): number | null => quantity(period[name], column, name, note);
  const starts_at = instantOf(period['startTime'], 'startTime', note);
  const ends_at = instantOf(period['endTime'], 'endTime', note);
  if (ends_at <= starts_at) throw new BrokenDocument('endTime is not after startTime');
  return {
    number: numberOf(period['number']),
    starts_at,
    ends_at,
    name: textOf(period['name']),
    is_daytime: period['isDaytime'] === true,
    temperature_c: temperatureOf(period, note),
    temperature_trend: trendOf(period['temperatureTrend']),
    precipitation_probability_pct: read('probabilityOfPrecipitation', 'precipitation_probability_pct'),
    dewpoint_c: read('dewpoint', 'dewpoint_c'),
    relative_humidity_pct: read('relativeHumidity', 'relative_humidity_pct'),
    wind_speed_min_kmh: low,
    wind_speed_max_kmh: high,
    wind_gust_kmh: gust,
    wind_direction: textOf(period['windDirection']),
    icon_url: textOf(period['icon']),
    short_forecast: textOf(period['shortForecast']),
    detailed_forecast: textOf(period['detailedForecast']),
  };
}

/** Reads a temperature, which is either a quantity, or a number in the unit given by `temperatureUnit`. */
function temperatureOf({ temperature, temperatureUnit }: Json, note: Note): number | null {
  if (typeof temperature !== 'number') return quantity(temperature, 'temperature_c', 'temperature', note);
  const unit = textOf(temperatureUnit)?.trim().toUpperCase() ?? null;
  if (unit === null) {
    note('temperatureUnit is missing; the temperature is read as unknown');
    return null;
  }
  const quantityOf = { value: temperature, unitCode: unit === 'F' || unit === 'C' ? `deg${unit}` : unit };
  return quantity(quantityOf, 'temperature_c', 'temperature', note);
}

/**
 * Returns a wind speed as a range in km/h. It can be text such as `15 mph` or `5 to 10 mph`, or a quantity
 * with one value or a range.
 */
function windOf(value: unknown, what: string, note: Note): [number | null, number | null] {
  const read = (figure: unknown, unitCode: unknown): number | null =>
    quantity({ value: figure, unitCode }, 'wind_gust_kmh', what, note);
  if (isRecord(value)) {
    const { minValue, maxValue, unitCode } = value;
    const low = value['value'] ?? minValue ?? maxValue;
    const high = value['value'] ?? maxValue ?? minValue;
    return [read(low, unitCode), read(high, unitCode)];
  }
  if (typeof value === 'number') {
    note(`${what} is a number without a unit; read as unknown`);
    return [null, null];
  }
  const text = textOf(value);
  if (text === null) return [null, null];
  if (/^calm$/i.test(text.trim())) return [0, 0];
  const speeds = text.match(/\d+(\.\d+)?/g)?.map(Number) ?? [];
  const [unit = 'mph'] = /[a-z][a-z/]*\s*$/i.exec(text.trim()) ?? [];
  if (speeds.length === 0) {
    note(`${what} is ${JSON.stringify(text.slice(0, 60))}; read as unknown`);
    return [null, null];
  }
  return [read(speeds[0], unit), read(speeds.at(-1), unit)];
}

/** The tables store period numbers as 16-bit integers. */
const maxPeriods = 32_767;

function numberOf(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= maxPeriods) return value;
  throw new BrokenDocument('the number of a period is not a whole number from 1 to 32767');
}

function trendOf(value: unknown): string | null {
  const text = textOf(value);
  return text === 'rising' || text === 'falling' ? text : null;
}

/**
 * Returns the middle of a grid cell, in degrees with four decimals, which is a precision of about ten meters.
 */
function cellMiddle(geometry: unknown, note: Note): [latitude: number, longitude: number] {
  const middle = middleOf(outlineOf(geometry, note) ?? geometry);
  if (middle === null) throw new BrokenDocument('geometry.coordinates are not longitudes and latitudes');
  const rounded = (degrees: number): number => Math.round(degrees * 1e4) / 1e4;
  return [rounded(middle.latitude), rounded(middle.longitude)];
}
