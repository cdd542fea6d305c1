import { wholeNumber } from '../../parameters.ts';
import { weatherFamily } from '../family.ts';
import { unitsParameter } from '../parameters.ts';
import { fields, weatherTable, type Column } from '../table.ts';
import { converterOf } from '../units.ts';
import {
  forecastRunData,
  forecastTables,
  locationParameter,
  periodData,
  readForecast,
  type ForecastPeriodData,
  type ForecastRunData,
} from './forecast-runs.ts';

export interface HourlyForecastData extends ForecastRunData {
  periods: ForecastPeriodData[];
}

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

export const hourlyForecasts = weatherFamily({
  tables: forecastTables,
  endpoint: {
    path: '/forecasts/hourly',
    operationId: 'getHourlyForecast',
    summary: 'The newest hourly forecast',
    parameters: {
      location: locationParameter,
      hours: wholeNumber(1, 168, 48, { description: 'How many hours, from the present one.' }),
      units: unitsParameter,
    },
    maxAgeSeconds: 300,
  },
  template: 'hourly_forecasts',
  itemNames: { periods: 'period' },
  table: weatherTable(columns, ({ location, timeZone, periods }: HourlyForecastData) =>
    periods.map((period) => ({ location, timeZone, ...period })),
  ),
  read: (source, { location, hours, units }) => {
    const convert = converterOf(units);
    return readForecast(
      source,
      { kind: 'hourly', location, count: hours, from: source.clock.now() },
      (run, periods): HourlyForecastData => ({
        ...forecastRunData(run, convert),
        periods: periods.map((period) => periodData(period, convert)),
      }),
    );
  },
});
