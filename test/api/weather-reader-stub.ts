import type { Reading, WeatherReader } from '../../src/core/weather/reader.ts';

/**
 * A reader whose every read does the same: for what HTTP makes of answers that no real database gives at
 * will.
 */
export function readerThat(read: () => Promise<Reading<object>>): WeatherReader {
  const any = read as () => Promise<Reading<never>>;
  return {
    observations: any,
    currentConditions: any,
    alerts: any,
    hourlyForecasts: any,
    narrativeForecasts: any,
    forecastDiscussions: any,
    weatherStories: any,
    convectiveOutlooks: any,
    outlookDiscussions: any,
    close: () => Promise.resolve(),
  };
}

export const emptyReader = readerThat(() => Promise.resolve({ data: null, lastModified: null }));
