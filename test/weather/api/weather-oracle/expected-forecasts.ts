import { type Quantity, converted, type UnitSystem } from './expected-observations.ts';
import { cell, instantOf, momentOf, numberOf, type Row, sorted, type Tables, textOf } from './rows.ts';

/** The expected forecasts. */

export interface ForecastQuestion {
  now: number;
  kind: 'hourly' | 'narrative';
  location: string | null;
  /** Milliseconds. If `until` is null, up to the last one. */
  from: number;
  until: number | null;
  /** The maximum number of periods. */
  count: number;
  units: UnitSystem;
}

const hour = 3_600_000;

export function runsOf({ forecast_runs: runs }: Tables, kind: string, now: number): Row[] {
  return sorted(
    runs.filter((row) => row['kind'] === kind && momentOf(row, 'generated_at') <= now + hour),
    (row) => -momentOf(row, 'generated_at'),
    (row) => -Number(row['run_id']),
  );
}

export function forecast(tables: Tables, asked: ForecastQuestion): { data: object; asOf: number } | null {
  const { kind, location, from, until, count, units } = asked;
  const [run] = runsOf(tables, kind, asked.now).filter(
    (row) => location === null || row['location_id'] === location,
  );
  if (run === undefined) return null;
  const cellRow = tables.locations.find((row) => row['location_id'] === run['location_id']);
  const ofRun = sorted(
    tables.forecast_periods.filter((row) => row['run_id'] === run['run_id']),
    (row) => Number(row['number']),
  );
  const wanted = ofRun.filter(
    (row) => momentOf(row, 'ends_at') > from && (until === null || momentOf(row, 'starts_at') < until),
  );
  const [temperature, windSpeed, elevation] = units === 'si' ? ['degC', 'km/h', 'm'] : ['degF', 'mph', 'ft'];
  const data = {
    location: textOf(run, 'location_id'),
    office: textOf(run, 'office'),
    gridX: numberOf(run, 'grid_x'),
    gridY: numberOf(run, 'grid_y'),
    latitude: cellRow === undefined ? null : numberOf(cellRow, 'latitude_deg'),
    longitude: cellRow === undefined ? null : numberOf(cellRow, 'longitude_deg'),
    timeZone: textOf(run, 'time_zone'),
    generatedAt: instantOf(run, 'generated_at'),
    updatedAt: instantOf(run, 'updated_at'),
    validFrom: instantOf(run, 'valid_from'),
    validUntil: instantOf(run, 'valid_until'),
    elevation: converted(numberOf(run, 'elevation_m'), 'height', units),
    units: { temperature, windSpeed, relativeHumidity: '%', probability: '%', elevation },
    periods: wanted.slice(0, count).map((row) => period(row, kind, units)),
  };
  return { data, asOf: momentOf(run, 'generated_at') };
}

function period(row: Row, kind: string, units: UnitSystem): object {
  const quantity = (column: string, what: Quantity): unknown => converted(numberOf(row, column), what, units);
  return {
    number: numberOf(row, 'number'),
    startsAt: instantOf(row, 'starts_at'),
    endsAt: instantOf(row, 'ends_at'),
    isDaytime: cell(row, 'is_daytime'),
    temperature: quantity('temperature_c', 'celsius'),
    dewpoint: quantity('dewpoint_c', 'celsius'),
    relativeHumidity: quantity('relative_humidity_pct', 'percent'),
    precipitationProbability: quantity('precipitation_probability_pct', 'percent'),
    windSpeedMin: quantity('wind_speed_min_kmh', 'speed'),
    windSpeedMax: quantity('wind_speed_max_kmh', 'speed'),
    windGust: quantity('wind_gust_kmh', 'speed'),
    windDirection: textOf(row, 'wind_direction'),
    shortForecast: textOf(row, 'short_forecast'),
    iconUrl: textOf(row, 'icon_url'),
    ...(kind === 'narrative'
      ? {
          name: textOf(row, 'name'),
          temperatureTrend: textOf(row, 'temperature_trend'),
          detailedForecast: textOf(row, 'detailed_forecast'),
        }
      : {}),
  };
}
