import { BrokenDocument, NothingToLoad } from './faults.ts';
import { quantity } from './observations.ts';
import { instantOf, isMap, mapsOf, required, textOf, type Json, type Loadable, type Row } from './rows.ts';
import { timeZoneAt } from '../../places/time-zone.ts';

/**
 * A gridpoint forecast. Its body does not name the grid point: the file does, as in `OKX_33_35_hourly.json`.
 */
export function forecastOf(feature: Json, fileName: string): Loadable {
  const p = isMap(feature['properties']) ? feature['properties'] : {};
  const [, office, x, y] = /^([A-Z]{3})_(\d+)_(\d+)_/.exec(fileName) ?? [];
  if (office === undefined || x === undefined || y === undefined)
    throw new NothingToLoad('the file of a forecast is named OFFICE_X_Y_….json');
  const periods = mapsOf(p['periods']).map(periodOf);
  const [valid_from, valid_until] = [periods[0]?.['starts_at'], periods.at(-1)?.['ends_at']];
  const location_id = `${office}/${x},${y}`;
  const [latitude_deg, longitude_deg] = middleOf(feature['geometry']);
  const time_zone = timeZoneAt(latitude_deg, longitude_deg);
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
      generated_at: instantOf(p['generatedAt'], 'generatedAt'),
      updated_at: instantOf(p['updateTime'], 'updateTime'),
      valid_from: instantOf(valid_from, 'the start of properties.periods'),
      valid_until: instantOf(valid_until, 'the end of properties.periods'),
      elevation_m: quantity(p['elevation']),
      received_at: instantOf(p['generatedAt'], 'generatedAt'),
    },
    periods,
  };
}

function periodOf(period: Json): Row {
  const [low, high] = windOf(textOf(period['windSpeed']));
  const gust = windOf(textOf(period['windGust']))[1];
  return {
    number: numberOf(period['number']),
    starts_at: instantOf(period['startTime'], 'startTime'),
    ends_at: instantOf(period['endTime'], 'endTime'),
    name: textOf(period['name']),
    is_daytime: period['isDaytime'] === true,
    temperature_c: temperatureOf(period),
    temperature_trend: trendOf(period['temperatureTrend']),
    precipitation_probability_pct: quantity(period['probabilityOfPrecipitation']),
    dewpoint_c: quantity(period['dewpoint']),
    relative_humidity_pct: quantity(period['relativeHumidity']),
    wind_speed_min_kmh: low,
    wind_speed_max_kmh: high,
    wind_gust_kmh: gust,
    wind_direction: textOf(period['windDirection']),
    icon_url: textOf(period['icon']),
    short_forecast: textOf(period['shortForecast']),
    detailed_forecast: textOf(period['detailedForecast']),
  };
}

function temperatureOf({ temperature, temperatureUnit }: Json): number | null {
  if (typeof temperature !== 'number') return quantity(temperature);
  return required(temperatureUnit, 'temperatureUnit') === 'F' ? ((temperature - 32) * 5) / 9 : temperature;
}

/** `5 to 10 mph` and `15 mph`, in km/h. */
function windOf(text: string | null): [number | null, number | null] {
  const speeds = (text?.match(/\d+(\.\d+)?/g) ?? []).map(
    (speed) => Number(speed) * (text?.includes('km/h') ? 1 : 1.609344),
  );
  return [speeds[0] ?? null, speeds.at(-1) ?? null];
}

function numberOf(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1) return value;
  throw new BrokenDocument('the number of a period is no whole number from 1 on');
}

function trendOf(value: unknown): string | null {
  const text = textOf(value);
  return text === 'rising' || text === 'falling' ? text : null;
}

/** The middle of the corners of a grid cell, in degrees to the fourth decimal: ten metres. */
function middleOf(geometry: unknown): [latitude: number, longitude: number] {
  let ring: unknown = isMap(geometry) ? geometry['coordinates'] : null;
  while (Array.isArray(ring) && Array.isArray(ring[0]) && Array.isArray(ring[0][0]))
    ring = ring[0] as unknown;
  const corners = (Array.isArray(ring) && Array.isArray(ring[0]) ? ring : [ring]) as unknown[];
  // The last corner of a ring is the first again.
  const distinct = corners.length > 1 ? corners.slice(1) : corners;
  const middle = (axis: 0 | 1): number => {
    const values = distinct.map((corner) => (Array.isArray(corner) ? (corner[axis] as unknown) : null));
    if (!values.every((value) => typeof value === 'number'))
      throw new BrokenDocument('geometry.coordinates are no longitudes and latitudes');
    return Math.round((values.reduce((sum, value) => sum + value, 0) / values.length) * 1e4) / 1e4;
  };
  return [middle(1), middle(0)];
}
