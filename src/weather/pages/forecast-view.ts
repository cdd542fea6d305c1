import { type HourlyForecastData, type NarrativeForecastData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { forecastWindOf, iconOf, moment, quantity } from './words.ts';

/** The hours and half days of a forecast, for the page of a station. */

/** Returns the abbreviation of the time zone of a forecast. */
export function zoneOf({ periods, timeZone }: HourlyForecastData): string {
  return (
    moment(periods[0]?.startsAt ?? null, timeZone)
      .split(' ')
      .at(-1) ?? 'UTC'
  );
}

export function hourOf(period: HourlyForecastData['periods'][number], data: HourlyForecastData | null) {
  const units = data?.units;
  return {
    time: textHelpers.time(period.startsAt, data?.timeZone ?? null, 'short'),
    temperature: quantity(period.temperature, units?.temperature ?? ''),
    precipitation: quantity(period.precipitationProbability, '%'),
    wind: forecastWindOf(period, units?.windSpeed ?? ''),
    sky: period.shortForecast ?? '',
    icon: iconOf(period.shortForecast, period.isDaytime),
  };
}

/** Returns half days with their highest or lowest temperature in whole degrees. */
export function halfDaysOf(data: NarrativeForecastData | null): object[] {
  if (data === null) return [];
  const { periods, timeZone, units } = data;
  return periods.map(({ name, startsAt, isDaytime, temperature, detailedForecast, shortForecast }) => ({
    icon: iconOf(shortForecast ?? detailedForecast, isDaytime),
    name: name ?? moment(startsAt, timeZone),
    temperature:
      temperature === null
        ? null
        : `${isDaytime ? 'High' : 'Low'} ${quantity(Math.round(temperature), units.temperature)}`,
    text: detailedForecast ?? shortForecast ?? '',
  }));
}
