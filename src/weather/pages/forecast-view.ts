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

/** A forecast of a week ends within an eighth day, whose temperatures are incomplete. */
const maxDays = 7;
/** The first days list every hour. Later days list every third one. */
const hourlyDays = 2;
const laterStep = 3;

/** Returns a line for each day, with its hours. */
export function daysOf(data: HourlyForecastData | null, now: Date): object[] {
  if (data === null) return [];
  const days = new Map<string, Period[]>();
  for (const period of data.periods) {
    const name = dateOf(period.startsAt, data.timeZone);
    days.set(name, [...(days.get(name) ?? []), period]);
  }
  const today = dateOf(now.toISOString(), data.timeZone);
  return [...days].slice(0, maxDays).map(([name, periods], index) => ({
    name: name === today ? 'Today' : name,
    ...dayOf(periods, data, index < hourlyDays ? 1 : laterStep),
  }));
}

/** Returns the day of a time: `Tue 20 Jan`. */
function dateOf(instant: string, timeZone: string | null): string {
  return moment(instant, timeZone).split(' ').slice(0, 3).join(' ');
}

function dayOf(periods: readonly Period[], data: HourlyForecastData, step: number): object {
  const { windSpeed } = data.units;
  const temperatures = periods.flatMap((one) => one.temperature ?? []);
  const chances = periods.flatMap((one) => one.precipitationProbability ?? []);
  const speeds = periods.flatMap((one) => one.windSpeedMax ?? []);
  const typical = typicalOf(periods);
  const end = textHelpers.time(periods.at(-1)?.endsAt ?? null, data.timeZone, 'hour');
  return {
    // The last day of a forecast can be incomplete.
    until: end === '00:00' ? null : `until ${end}`,
    sky: typical?.shortForecast ?? '',
    icon: typical === null ? null : iconOf(typical.shortForecast, typical.isDaytime),
    high: temperatures.length === 0 ? unknown : degrees(Math.max(...temperatures)),
    low: temperatures.length === 0 ? unknown : degrees(Math.min(...temperatures)),
    precipitation: chances.length === 0 ? null : quantity(Math.max(...chances), '%'),
    wind: speeds.length === 0 ? null : quantity(Math.max(...speeds), windSpeed, 0),
    hours: hoursOf(periods, data.timeZone, step),
  };
}

/** Formats a temperature without its scale, which the card and the table name once: `−4°`. */
function degrees(value: number): string {
  return wholeDegrees(value, 'deg').replace('\u00a0', '');
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

function hoursOf(periods: readonly Period[], timeZone: string | null, step: number): object[] {
  const shown = periods.filter((_, index) => index % step === 0);
  return shown.map((period, index) => ({
    ...hourOf(period, timeZone),
    isSameSky: shown[index - 1]?.shortForecast === period.shortForecast,
  }));
}

function hourOf(period: Period, timeZone: string | null) {
  return {
    time: textHelpers.time(period.startsAt, timeZone, 'hour'),
    temperature: period.temperature === null ? unknown : degrees(period.temperature),
    precipitation: quantity(period.precipitationProbability, '%'),
    wind: forecastWindOf(period),
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
