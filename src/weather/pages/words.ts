import { plural } from '../../core/lib/text.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf, type UnitSystem } from '../units.ts';

/** Turns quantities, times and ages into text for people. */

const signs: Readonly<Record<string, string>> = { degC: '°C', degF: '°F', deg: '°' };
export const unknown = '–';

/** Formats a quantity: `21.5 °C`. If it is unknown, returns a dash. */
export function quantity(value: number | null | undefined, unit: string, digits?: number): string {
  if (value === null || value === undefined) return unknown;
  const figure = digits === undefined ? String(value) : value.toFixed(digits);
  return `${figure.replace('-', '−')}${unit === '%' ? '' : '\u00a0'}${signs[unit] ?? unit}`;
}

/** Formats a temperature in whole degrees: `22 °C`. Its decimals are below the accuracy of a thermometer. */
export function wholeDegrees(value: number | null | undefined, unit: string): string {
  return quantity(typeof value === 'number' ? Math.round(value) : value, unit);
}

/** Returns a pressure or a distance with the unit and the precision that forecasts for people use. */
export function readableQuantity(value: number | null | undefined, unit: string): string {
  if (typeof value === 'number' && unit === 'Pa') return quantity(value / 100, 'hPa', 0);
  if (typeof value === 'number' && unit === 'm' && value >= 1000) return quantity(value / 1000, 'km', 0);
  if (typeof value === 'number' && unit === 'mi') return quantity(Math.round(value * 10) / 10, unit);
  return quantity(value, unit);
}

export function temperatureUnit(units: UnitSystem): string {
  return signs[converterOf(units).units.temperature] ?? '';
}

/** Describes wind: `NNW 15 km/h, gusts to 30 km/h`, or `Calm`. Breaks lines only after the comma. */
export function windOf(
  wind: { windDirection: number | null; windSpeed: number | null; windGust: number | null },
  unit: string,
): string {
  const { windDirection, windSpeed, windGust } = wind;
  const gusts = windGust === null ? null : `gusts\u00a0to\u00a0${quantity(windGust, unit, 0)}`;
  if (windSpeed === null) return gusts === null ? unknown : capital(gusts);
  if (windSpeed === 0) return 'Calm';
  const from = windDirection === null ? 'Variable' : textHelpers.compass(windDirection);
  const steady = `${from}\u00a0${quantity(windSpeed, unit, 0)}`;
  return gusts === null ? steady : `${steady}, ${gusts}`;
}

/** Describes wind in a forecast without its unit, which a table names once: `NNW 8 to 16`, or `Calm`. */
export function forecastWindOf(wind: {
  windDirection: string | null;
  windSpeedMin: number | null;
  windSpeedMax: number | null;
}): string {
  const { windDirection, windSpeedMin, windSpeedMax } = wind;
  if (windSpeedMax === null) return unknown;
  if (windSpeedMax === 0) return 'Calm';
  const from = windDirection === null ? '' : `${windDirection} `;
  const least = windSpeedMin === null ? null : windSpeedMin.toFixed(0);
  const range = least === null || least === windSpeedMax.toFixed(0) ? '' : `${least} to `;
  return unbroken(`${from}${range}${windSpeedMax.toFixed(0)}`);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Formats a time: `Tue 20 Jan 12:51 EST`. */
export function moment(instant: string | Date | null, timeZone: string | null): string {
  const text = instant instanceof Date ? instant.toISOString() : instant;
  return text === null ? unknown : textHelpers.time(text, timeZone, 'row');
}

const minuteMs = 60_000;

/** Formats how long ago something was: `5 minutes`, `3 hours` or `2 days`. */
export function ageOf(from: Date, now: Date): string {
  const minutes = Math.max(0, Math.floor((now.getTime() - from.getTime()) / minuteMs));
  if (minutes < 120) return plural(minutes, 'minute');
  if (minutes < 48 * 60) return plural(Math.floor(minutes / 60), 'hour');
  return plural(Math.floor(minutes / (24 * 60)), 'day');
}

/** Formats a duration: `40 min`, `11 h 40 min` or `3 days`. */
export function durationOf(from: Date, to: Date): string {
  const minutes = Math.max(1, Math.floor((to.getTime() - from.getTime()) / minuteMs));
  if (minutes >= 48 * 60) return ageOf(from, to);
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return [...(hours > 0 ? [`${hours} h`] : []), ...(rest > 0 ? [`${rest} min`] : [])].join(' ');
}

/** Returns a text that stays on one line. */
export function unbroken(text: string): string {
  return text.replaceAll(' ', '\u00a0');
}

/** Returns the weekday of a day in the future: `Thursday`. */
export function weekday(now: Date, daysAhead: number, timeZone: string | null): string {
  const day = new Date(now.getTime() + daysAhead * 24 * 60 * minuteMs);
  return day.toLocaleDateString('en-US', { weekday: 'long', timeZone: timeZone ?? 'UTC' });
}

/** Joins words: `tornadoes, wind and hail`. */
export function joined(words: readonly string[], last: 'and' | 'or' = 'and'): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`;
}

/**
 * Describes the weather in an observation in words: `Light freezing rain, fog in the vicinity`. Prefers the
 * observation's own text.
 */
export function skyOf(sky: Parameters<typeof textHelpers.weather>[0]): string | null {
  const text = textHelpers.weather(sky);
  return text === '--' ? null : text;
}

const amounts = {
  SKC: 'clear sky',
  CLR: 'clear sky',
  FEW: 'few clouds',
  SCT: 'scattered clouds',
  BKN: 'broken clouds',
  OVC: 'overcast',
  VV: 'sky obscured, vertical visibility',
} as const;

/**
 * Describes clouds: `Broken clouds at 3,000 ft, overcast at 5,000 ft`. Returns an empty string if nothing is
 * known about them.
 */
export function cloudsOf(
  clouds: readonly { amount: keyof typeof amounts; base: number | null }[],
  unit: string,
): string {
  const text = clouds
    .map(({ amount, base }) => {
      const at = amount === 'VV' ? ' ' : ' at ';
      return `${amounts[amount]}${base === null ? '' : `${at}${heightOf(base, unit).toLocaleString('en-US')}\u00a0${unit}`}`;
    })
    .join(', ');
  return capital(text);
}

/** Reports have heights in hundreds of feet, so that more than two digits of meters are not known. */
function heightOf(base: number, unit: string): number {
  return unit === 'm' ? Number(base.toPrecision(2)) : base;
}

/** Splits the text of an alert into paragraphs. The original is broken into lines of 69 characters. */

export interface Paragraph {
  /** For example, `What` if the text is `* WHAT...Heavy snow.`. null if there is no label. */
  label: string | null;
  text: string;
  /** True if spaces and line breaks are significant, as in a table. */
  isTable: boolean;
}

/**
 * Returns the paragraphs of a text. Blank lines and list items start a new one, but single line breaks do
 * not.
 */
export function paragraphsOf(text: string | null): Paragraph[] {
  return (text ?? '')
    .trim()
    .split(/\n[ \t]*\n\s*|\n(?=\s*(?:[*•]|- )\s*\S)/)
    .filter((part) => part.trim() !== '')
    .map((part) => {
      if (isTable(part)) return { label: null, text: part, isTable: true };
      const joined = part.replaceAll(/\s+/g, ' ').trim();
      const [, name, rest] = /^\* ?([A-Z][A-Z /]{2,40})\.\.\.\s*(.*)$/.exec(joined) ?? [];
      if (name === undefined || rest === undefined) return { label: null, text: joined, isTable: false };
      return { label: `${name.charAt(0)}${name.slice(1).toLowerCase()}`, text: rest, isTable: false };
    });
}

function isTable(part: string): boolean {
  return part.split('\n').filter((line) => /\S(?: {3,}|\t+)\S/.test(line)).length >= 2;
}

const weekdays = /\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b/g;

/** Changes a heading in capitals to a sentence: `NEAR TERM` to `Near term`. Leaves others alone. */
export function plainCase(text: string): string {
  if (/[a-z]/.test(text)) return text;
  const lower = text.replaceAll(/\b[A-Z]{2,}\b/g, (word) => word.toLowerCase());
  return capital(lower.replaceAll(weekdays, capital));
}

/** The icons in `templates/weather-pages/icons.ejs`. */
type Icon =
  | 'thunder'
  | 'sleet'
  | 'snow'
  | 'rain'
  | 'fog'
  | 'wind'
  | 'partly'
  | 'cloudy'
  | 'clear'
  | 'night'
  | 'partly-night';

const iconWords: readonly [RegExp, Icon][] = [
  [/thunder|t-?storm|tornado|funnel|squall/i, 'thunder'],
  [/sleet|freezing (?:rain|drizzle|spray)|ice|hail|wintry/i, 'sleet'],
  [/snow|blizzard|flurr/i, 'snow'],
  [/rain|drizzle|shower|precipitation/i, 'rain'],
  [/fog|mist|haze|smoke|dust|ash|sand/i, 'fog'],
  [/partly|mostly (?:sunny|clear)|few|scattered/i, 'partly'],
  [/cloud|overcast|broken|obscured/i, 'cloudy'],
  [/clear|sunny|fair|skc/i, 'clear'],
  [/wind|breez|blust/i, 'wind'],
];

/**
 * Returns the icon for a description of the weather, or null if there is none. Icons are only decoration, and
 * never say more than the text.
 */
export function iconOf(sky: string | null, isDaytime: boolean): Icon | null {
  const icon = sky === null ? undefined : iconWords.find(([pattern]) => pattern.test(sky))?.[1];
  if (icon === undefined) return null;
  if (isDaytime || (icon !== 'clear' && icon !== 'partly')) return icon;
  return icon === 'clear' ? 'night' : 'partly-night';
}
