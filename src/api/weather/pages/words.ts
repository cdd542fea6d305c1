import { textHelpers } from '../../../core/weather/render/text-helpers.ts';
import { converterOf, type UnitSystem } from '../../../core/weather/units.ts';

/** Quantities, moments and ages as people read them. */

const signs: Readonly<Record<string, string>> = { degC: '°C', degF: '°F', deg: '°' };
export const unknown = '–';

/** `21.5 °C`; a dash for what is unknown. */
export function quantity(value: number | null | undefined, unit: string, digits?: number): string {
  if (value === null || value === undefined) return unknown;
  const figure = digits === undefined ? String(value) : value.toFixed(digits);
  return `${figure.replace('-', '−')}${unit === '%' ? '' : '\u00a0'}${signs[unit] ?? unit}`;
}

export function temperatureUnit(units: UnitSystem): string {
  return signs[converterOf(units).units.temperature] ?? '';
}

/** `NNW 15 km/h, gusts 30 km/h`. */
export function windOf(
  wind: { windDirection: number | null; windSpeed: number | null; windGust: number | null },
  unit: string,
): string {
  const { windDirection, windSpeed, windGust } = wind;
  if (windSpeed === null) return unknown;
  if (windSpeed === 0) return 'calm';
  const from = windDirection === null ? '' : `${textHelpers.compass(windDirection)} `;
  const gusts = windGust === null ? '' : `, gusts ${quantity(windGust, unit, 0)}`;
  return `${from}${quantity(windSpeed, unit, 0)}${gusts}`;
}

/** `Tue 20 Jan 12:51 EST`. */
export function moment(instant: string | Date | null, timeZone: string | null): string {
  const text = instant instanceof Date ? instant.toISOString() : instant;
  return text === null ? unknown : textHelpers.time(text, timeZone, 'row');
}

const minuteMs = 60_000;

/** `5 minutes`, `3 hours`, `2 days`. Pure. */
export function ageOf(from: Date, now: Date): string {
  const minutes = Math.max(0, Math.floor((now.getTime() - from.getTime()) / minuteMs));
  if (minutes < 120) return plural(minutes, 'minute');
  if (minutes < 48 * 60) return plural(Math.floor(minutes / 60), 'hour');
  return plural(Math.floor(minutes / (24 * 60)), 'day');
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** What an automatic text calls something, as a person writes it: `light freezing rain, overcast`. */
export function skyOf(sky: {
  textDescription: string | null;
  presentWeather: readonly { intensity: string | null; modifier: string | null; phenomenon: string }[];
}): string | null {
  if (sky.textDescription !== null && sky.textDescription.trim() !== '') return sky.textDescription;
  const words = sky.presentWeather.map(({ intensity, modifier, phenomenon }) =>
    [intensity, modifier, phenomenon].filter((word) => word !== null).join(' '),
  );
  const text = words.join(', ').replaceAll('_', ' ');
  return text === '' ? null : text.charAt(0).toUpperCase() + text.slice(1);
}
