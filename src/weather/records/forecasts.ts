import { atMostOneOf, moment, wholeNumber } from '../../core/lib/parameters.ts';
import { weatherFamily } from '../family.ts';
import { searchAreaOf } from '../places/place-index.ts';
import { radiusParameter, radiusRule, rangeRule, unitsParameter } from '../places/place-parameters.ts';
import { converterOf } from '../units.ts';
import { type Column, fields, weatherTable } from '../values.ts';
import {
  type ForecastPeriodData,
  type ForecastRunData,
  type HourlyForecastData,
  hourlyForecastsRecord,
  type NarrativeForecastData,
  narrativeForecastsRecord,
} from './family-fields.ts';
import {
  forecastFeatures,
  forecastPointParameter,
  forecastRunData,
  forecastTables,
  locationParameter,
  periodData,
  readForecast,
} from './forecast-runs.ts';

const columns: readonly Column<ForecastPeriodData & Pick<ForecastRunData, 'location' | 'timeZone'>>[] = [
  ...fields({ location: null, timeZone: null, startsAt: null, endsAt: null, isDaytime: null }),
  ...fields({
    temperature: 'temperature',
    dewpoint: 'temperature',
    relativeHumidity: 'relativeHumidity',
    precipitationProbability: 'probability',
    windSpeedMin: 'windSpeed',
    windSpeedMax: 'windSpeed',
    windGust: 'windSpeed',
    windDirection: null,
    shortForecast: null,
    iconUrl: null,
  }),
];

const hourMs = 60 * 60_000;
const maxHours = 168;

export const hourlyForecasts = weatherFamily({
  tables: forecastTables,
  endpoint: {
    path: '/forecasts/hourly',
    operationId: 'getHourlyForecast',
    summary: 'Get an hourly forecast',
    parameters: {
      location: locationParameter,
      point: forecastPointParameter,
      radius: radiusParameter,
      hours: wholeNumber(1, maxHours, 48, {
        description: 'Number of hours, from the current hour or from `start`.',
      }),
      start: moment({
        description: 'Start of the range. Default: now.',
        example: '2026-01-20T18:00:00Z',
      }),
      end: moment({
        description: 'End of the range, exclusive, at most 168 hours after `start`. Replaces `hours`.',
        example: '2026-01-21T06:00:00Z',
      }),
      units: unitsParameter,
    },
    rules: [
      atMostOneOf('location', 'point'),
      radiusRule,
      atMostOneOf('hours', 'end'),
      rangeRule(maxHours * hourMs),
    ],
    maxAgeSeconds: 300,
  },
  record: hourlyForecastsRecord,
  template: 'hourly_forecasts',
  itemNames: { periods: 'period' },
  features: (data: HourlyForecastData) => forecastFeatures(data),
  table: weatherTable(columns, ({ location, timeZone, periods }: HourlyForecastData) =>
    periods.map((period) => ({ location, timeZone, ...period })),
  ),
  read: (source, { location, point, radius, hours, start, end, units }) => {
    const convert = converterOf(units);
    const from = start ?? source.clock.now();
    const lastHour = new Date(Math.floor(from.getTime() / hourMs) * hourMs + hours * hourMs);
    return readForecast(
      source,
      {
        kind: 'hourly',
        location,
        searchArea: searchAreaOf(point, radius),
        count: end === null ? hours : maxHours,
        from,
        until: end ?? lastHour,
      },
      (run, place, periods): HourlyForecastData => ({
        ...forecastRunData(run, place, convert),
        periods: periods.map((period) => periodData(period, convert)),
      }),
    );
  },
});

export const narrativeForecasts = weatherFamily({
  tables: forecastTables,
  endpoint: {
    path: '/forecasts/narrative',
    operationId: 'getNarrativeForecast',
    summary: 'Get a narrative forecast',
    parameters: {
      location: locationParameter,
      point: forecastPointParameter,
      radius: radiusParameter,
      periods: wholeNumber(1, 28, 14, {
        description: 'Number of half-day periods, starting with the current one.',
      }),
      units: unitsParameter,
    },
    rules: [atMostOneOf('location', 'point'), radiusRule],
    maxAgeSeconds: 300,
  },
  record: narrativeForecastsRecord,
  template: 'narrative_forecasts',
  itemNames: { periods: 'period' },
  features: (data: NarrativeForecastData) => forecastFeatures(data),
  read: (source, { location, point, radius, periods: count, units }) => {
    const convert = converterOf(units);
    return readForecast(
      source,
      {
        kind: 'narrative',
        location,
        searchArea: searchAreaOf(point, radius),
        count,
        from: source.clock.now(),
        until: null,
      },
      (run, place, periods): NarrativeForecastData => ({
        ...forecastRunData(run, place, convert),
        periods: periods.map((period) => ({
          ...periodData(period, convert),
          name: period.name,
          temperatureTrend: period.temperatureTrend,
          detailedForecast: period.detailedForecast,
        })),
      }),
    );
  },
});
