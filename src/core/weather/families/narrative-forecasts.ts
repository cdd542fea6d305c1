import { wholeNumber } from '../../parameters.ts';
import { weatherFamily } from '../family.ts';
import { unitsParameter } from '../parameters.ts';
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

export interface NarrativeForecastData extends ForecastRunData {
  periods: NarrativePeriodData[];
}

export interface NarrativePeriodData extends ForecastPeriodData {
  name: string | null;
  temperatureTrend: 'rising' | 'falling' | null;
  detailedForecast: string | null;
}

export const narrativeForecasts = weatherFamily({
  tables: forecastTables,
  endpoint: {
    path: '/forecasts/narrative',
    operationId: 'getNarrativeForecast',
    summary: 'The newest forecast in words',
    parameters: {
      location: locationParameter,
      periods: wholeNumber(1, 28, 14, { description: 'How many half days, from the first of the forecast.' }),
      units: unitsParameter,
    },
    maxAgeSeconds: 300,
  },
  template: 'narrative_forecasts',
  itemNames: { periods: 'period' },
  read: (source, { location, periods: count, units }) => {
    const convert = converterOf(units);
    return readForecast(
      source,
      { kind: 'narrative', location, count, from: null },
      (run, periods): NarrativeForecastData => ({
        ...forecastRunData(run, convert),
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
