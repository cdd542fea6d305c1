import { type HourlyForecastData, type NarrativeForecastData } from '../records/family-fields.ts';
import {
  type CurrentConditionsData,
  type ObservationData,
  type ObservationsData,
  type PlaceData,
} from '../records/observation-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf, type UnitSystem } from '../units.ts';
import { temperatureColour } from './colours.ts';
import { stationHref } from './map-query.ts';
import { dataOf, type Notice, type Section } from './section.ts';
import {
  ageOf,
  cloudsOf,
  forecastWindOf,
  iconOf,
  moment,
  quantity,
  readableQuantity,
  skyOf,
  unbroken,
  unknown,
  wholeDegrees,
  windOf,
} from './words.ts';

/** The present weather at a station, and the days, hours and half days of its forecast. */

export interface NearStation {
  place: PlaceData;
  /** In degrees Celsius. null if the observation could not be read. */
  observation: ObservationData | null;
}

/** The data about the current weather at a station. */
export interface PresentContent {
  place: PlaceData;
  now: Date;
  units: UnitSystem;
  conditions: Section<CurrentConditionsData>;
  newest: Section<ObservationData | ObservationsData>;
  hourly: Section<HourlyForecastData>;
  /** The nearest stations with a current observation. Empty if this station has one. */
  nearest: readonly NearStation[];
}

/**
 * Returns the current conditions. Without them, returns the latest observation of the station, labeled
 * accordingly.
 */
export function presentOf({ conditions, newest, hourly, place, now }: PresentContent) {
  const current = dataOf(conditions);
  const found = dataOf(newest);
  const last = found === null || 'observations' in found ? null : found;
  const shown = current ?? last;
  if (shown === null) {
    const refused = conditions.kind === 'refused' ? conditions : newest.kind === 'refused' ? newest : null;
    const notice: Notice | null = refused === null ? null : { status: 'failure', text: refused.why };
    return {
      heading: notice === null ? 'No report yet' : 'Now',
      isOld: notice === null,
      notice,
      values: null,
    };
  }
  const age = ageOf(new Date(shown.observedAt), now);
  const isOld = current === null || (conditions.kind === 'read' && conditions.stale);
  const { units } = shown;
  const temperature = wholeDegrees(shown.temperature, units.temperature);
  const feelsLike = wholeDegrees(current?.feelsLike, units.temperature);
  return {
    heading: isOld ? `No report for ${age}` : 'Now',
    isOld,
    notice: null,
    values: {
      temperature,
      sky: skyOf(shown),
      icon: iconOf(skyOf(shown), isDaytimeAt(dataOf(hourly), shown.observedAt)),
      observedAt: shown.observedAt,
      observedText: moment(shown.observedAt, place.timeZone),
      age: unbroken(`${age} ago`),
      feelsLike: feelsLike === unknown || feelsLike === temperature ? null : feelsLike,
      facts: [
        ['Dew point', wholeDegrees(shown.dewpoint, units.temperature)],
        ['Humidity', quantity(shown.relativeHumidity, units.relativeHumidity)],
        ['Pressure', readableQuantity(shown.altimeter ?? shown.seaLevelPressure, units.pressure)],
        ['Visibility', readableQuantity(shown.visibility, units.visibility)],
        ['Rain in the last hour', quantity(shown.precipitation1h, units.precipitation)],
        ['Wind', windOf(shown, units.windSpeed)],
        ['Clouds', cloudsOf(shown.clouds, units.cloudBase)],
      ].filter(([, value]) => value !== '' && value !== unknown),
    },
  };
}

/** Returns the nearest stations that report, with their distance and their weather. */
export function nearestOf({ nearest, units }: PresentContent, here: string): object[] {
  const converter = converterOf(units);
  return nearest.map(({ place, observation }) => {
    const celsius = observation?.temperature ?? null;
    return {
      name: place.name ?? place.id,
      href: stationHref(place.id, { units }, here),
      distance: quantity(place.distance, units === 'si' ? 'km' : 'mi', 0),
      temperature:
        celsius === null
          ? unknown
          : wholeDegrees(converter.temperature(celsius), converter.units.temperature),
      sky: (observation === null ? null : skyOf(observation)) ?? unknown,
      time: observation === null ? unknown : clockOf(observation.observedAt, place.timeZone),
    };
  });
}

/** Returns the time of a recent report without its day: `12:51 EST`. */
function clockOf(instant: string, timeZone: string | null): string {
  return moment(instant, timeZone).split(' ').slice(-2).join(' ');
}

/**
 * Reports whether it is day or night at this time, according to the forecast. Without a forecast, assumes
 * that it is day.
 */
function isDaytimeAt(forecast: HourlyForecastData | null, at: string): boolean {
  const near = forecast?.periods.find(({ endsAt }) => endsAt > at);
  return near?.isDaytime ?? true;
}

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

/** Returns a line for each day, with its hours. The ranges of all days have one scale. */
export function daysOf(data: HourlyForecastData | null, now: Date): object[] {
  if (data === null) return [];
  const days = new Map<string, Period[]>();
  for (const period of data.periods) {
    const name = dateOf(period.startsAt, data.timeZone);
    days.set(name, [...(days.get(name) ?? []), period]);
  }
  const today = dateOf(now.toISOString(), data.timeZone);
  const listed = [...days].slice(0, maxDays);
  const all = temperaturesOf(listed.flatMap(([, periods]) => periods));
  return listed.map(([name, periods], index) => ({
    name: name === today ? 'Today' : name,
    bar: barOf(temperaturesOf(periods), all),
    ...dayOf(periods, data, index < hourlyDays ? 1 : laterStep),
  }));
}

function temperaturesOf(periods: readonly Period[]): number[] {
  return periods.flatMap(({ temperature }) => temperature ?? []);
}

/** Returns where the bar of a day's temperatures begins and ends, in percent of the range of all days. */
function barOf(day: readonly number[], all: readonly number[]): { from: number; to: number } | null {
  const [lowest, highest] = [Math.min(...all), Math.max(...all)];
  if (day.length === 0 || highest === lowest) return null;
  const percent = (value: number): number => Math.round(((value - lowest) / (highest - lowest)) * 100);
  return { from: percent(Math.min(...day)), to: percent(Math.max(...day)) };
}

/** Returns the colors of the bars from the lowest to the highest temperature of all days. */
export function barColoursOf(data: HourlyForecastData | null): { offset: string; colour: string }[] {
  const all = temperaturesOf(data?.periods ?? []);
  if (data === null || all.length === 0) return [];
  const [lowest, highest] = [Math.min(...all), Math.max(...all)];
  return [0, 20, 40, 60, 80, 100].map((percent) => {
    const value = lowest + ((highest - lowest) * percent) / 100;
    const celsius = data.units.temperature === 'degF' ? (value - 32) / 1.8 : value;
    return { offset: `${percent}%`, colour: temperatureColour(celsius) };
  });
}

/** Returns the day of a time: `Tue 20 Jan`. */
function dateOf(instant: string, timeZone: string | null): string {
  return moment(instant, timeZone).split(' ').slice(0, 3).join(' ');
}

function dayOf(periods: readonly Period[], data: HourlyForecastData, step: number): object {
  const { windSpeed } = data.units;
  const temperatures = temperaturesOf(periods);
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
    every: step === 1 ? null : `Every ${step} hours`,
    hours: periods.filter((_, index) => index % step === 0).map((period) => hourOf(period, data.timeZone)),
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
