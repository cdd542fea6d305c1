import type { WeatherDatabase } from '../database.ts';
import type { WeatherReader } from '../reader.ts';
import { converterOf } from '../units.ts';
import { forecastRunData, periodData, readForecast } from './forecasts.ts';

export function hourlyForecastsReader(database: WeatherDatabase): WeatherReader['hourlyForecasts'] {
  return ({ location, hours, units }) => {
    const convert = converterOf(units);
    return readForecast(database, { kind: 'hourly', location, count: hours }, (run, periods) => ({
      ...forecastRunData(run, convert),
      periods: periods.map((period) => periodData(period, convert)),
    }));
  };
}
