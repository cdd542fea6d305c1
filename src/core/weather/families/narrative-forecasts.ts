import type { WeatherDatabase } from '../database.ts';
import type { WeatherReader } from '../reader.ts';
import { converterOf } from '../units.ts';
import { forecastRunData, periodData, readForecast } from './forecasts.ts';

export function narrativeForecastsReader(database: WeatherDatabase): WeatherReader['narrativeForecasts'] {
  return ({ location, periods: count, units }) => {
    const convert = converterOf(units);
    return readForecast(database, { kind: 'narrative', location, count }, (run, periods) => ({
      ...forecastRunData(run, convert),
      periods: periods.map((period) => ({
        ...periodData(period, convert),
        name: period.name,
        temperatureTrend: period.temperatureTrend,
        detailedForecast: period.detailedForecast,
      })),
    }));
  };
}
