import { atMostOneOf, wholeNumber } from '../../core/lib/parameters.ts';
import { weatherFamily } from '../family.ts';
import { unitsParameter } from '../parameters.ts';
import { aroundOf } from '../places/nearest.ts';
import { radiusParameter, radiusRule } from '../places/place-parameters.ts';
import { converterOf } from '../units.ts';
import { readForecast } from './forecast-reads.ts';
import {
  forecastFeatures,
  forecastPointParameter,
  forecastRunData,
  forecastTables,
  locationParameter,
  periodData,
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
      point: forecastPointParameter,
      radius: radiusParameter,
      periods: wholeNumber(1, 28, 14, {
        description: 'How many half days, from the first that is not over.',
      }),
      units: unitsParameter,
    },
    rules: [atMostOneOf('location', 'point'), radiusRule],
    maxAgeSeconds: 300,
  },
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
        around: aroundOf(point, radius),
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
