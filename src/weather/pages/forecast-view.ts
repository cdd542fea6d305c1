import { type HourlyForecastData, type NarrativeForecastData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { forecastWindOf, iconOf, moment, quantity, unknown, wholeDegrees } from './words.ts';

/** The days, hours and half days of a forecast, for the page of a station. */

/** Returns the abbreviation of the time zone of a forecast. */
export function zoneOf({ periods, timeZone }: HourlyForecastData): string {
  return (
    moment(periods[0]?.startsAt ?? null, timeZone)
      .split(' ')
      .at(-1) ?? 'UTC'
  );
}

type Period = HourlyForecastData['periods'][number];

/** Returns a line for each day, with its hours. */
export function daysOf(data: HourlyForecastData | null): object[] {
  if (data === null) return [];
  const days = new Map<string, Period[]>();
  for (const period of data.periods) {
    const name = moment(period.startsAt, data.timeZone).split(' ').slice(0, 3).join(' ');
    days.set(name, [...(days.get(name) ?? []), period]);
  }
  return [...days].map(([name, periods]) => ({ name, ...dayOf(periods, data) }));
}

function dayOf(periods: readonly Period[], data: HourlyForecastData): object {
  const { temperature, windSpeed } = data.units;
  const temperatures = periods.flatMap((one) => one.temperature ?? []);
  const chances = periods.flatMap((one) => one.precipitationProbability ?? []);
  const speeds = periods.flatMap((one) => one.windSpeedMax ?? []);
  const typical = typicalOf(periods);
  const [low, high] = [Math.min(...temperatures), Math.max(...temperatures)];
  return {
    sky: typical?.shortForecast ?? '',
    icon: typical === null ? null : iconOf(typical.shortForecast, typical.isDaytime),
    range: temperatures.length === 0 ? unknown : rangeText(Math.round(low), Math.round(high), temperature),
    precipitation: chances.length === 0 ? null : quantity(Math.max(...chances), '%'),
    wind: speeds.length === 0 ? null : quantity(Math.max(...speeds), windSpeed, 0),
    hours: periods.map((period) => hourOf(period, data)),
  };
}

function rangeText(low: number, high: number, unit: string): string {
  const most = wholeDegrees(high, unit);
  return low === high ? most : `${wholeDegrees(low, '').trim()} to ${most}`;
}

/** Returns an hour with the most frequent sky of a day, preferably by daylight. */
function typicalOf(periods: readonly Period[]): Period | null {
  const described = periods.filter(({ shortForecast }) => shortForecast !== null);
  const light = described.filter(({ isDaytime }) => isDaytime);
  const counted = light.length > 0 ? light : described;
  const count = (one: Period): number =>
    counted.filter(({ shortForecast }) => shortForecast === one.shortForecast).length;
  return [...counted].sort((a, b) => count(b) - count(a))[0] ?? null;
}

function hourOf(period: Period, { units, timeZone }: HourlyForecastData) {
  return {
    time: textHelpers.time(period.startsAt, timeZone, 'hour'),
    temperature: wholeDegrees(period.temperature, units.temperature),
    precipitation: quantity(period.precipitationProbability, '%'),
    wind: forecastWindOf(period, units.windSpeed),
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
        : `${isDaytime ? 'High' : 'Low'} ${wholeDegrees(temperature, units.temperature)}`,
    text: detailedForecast ?? shortForecast ?? '',
  }));
}
