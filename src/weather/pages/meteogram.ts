import { type HourlyForecastData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { quantity } from './words.ts';

/** A chart of the next hours, with temperature, dew point, chance of precipitation and wind. */
export interface Meteogram {
  width: number;
  height: number;
  /** The upper and lower edges of the two parts of the chart. */
  panels: { temperature: Panel; precipitation: Panel };
  /** SVG path data. Hours without a value leave a gap. */
  temperature: string;
  dewpoint: string;
  /** Labeled horizontal grid lines. */
  levels: { y: number; text: string }[];
  bars: { x: number; y: number; width: number; height: number }[];
  hours: { x: number; text: string; wind: string; isMidnight: boolean; day: string | null }[];
  nights: { x: number; width: number }[];
  /** A description of the chart for screen readers. */
  summary: string;
}

interface Panel {
  top: number;
  bottom: number;
}

type Period = HourlyForecastData['periods'][number];

const size = { width: 960, height: 300 };
const left = 44;
const right = size.width - 12;
const panels = { temperature: { top: 34, bottom: 168 }, precipitation: { top: 190, bottom: 244 } };
const everyHours = 3;
/** Half the width of a wind label. */
const maxText = 20;

/** Draws a chart for an hourly forecast. Returns null if fewer than two hours have a temperature. */
export function meteogram({ periods, timeZone, units }: HourlyForecastData): Meteogram | null {
  const values = periods.flatMap(({ temperature, dewpoint }) =>
    [temperature, dewpoint].filter((one) => one !== null),
  );
  if (periods.filter(({ temperature }) => temperature !== null).length < 2) return null;
  const step = (right - left) / periods.length;
  const middle = (index: number): number => rounded(left + step * (index + 0.5));
  const { levels, yOf } = scaleOf(values, units.temperature);
  const { top, bottom } = panels.precipitation;
  return {
    ...size,
    panels,
    temperature: lineOf(
      periods.map(({ temperature }) => temperature),
      middle,
      yOf,
    ),
    dewpoint: lineOf(
      periods.map(({ dewpoint }) => dewpoint),
      middle,
      yOf,
    ),
    levels,
    bars: periods.flatMap(({ precipitationProbability: percent }, index) => {
      if (percent === null || percent <= 0) return [];
      const height = rounded(((bottom - top) * Math.min(percent, 100)) / 100);
      return [
        {
          x: rounded(left + step * index + 0.5),
          y: rounded(bottom - height),
          width: rounded(step - 1),
          height,
        },
      ];
    }),
    hours: periods.flatMap((period, index) => {
      const hour = textHelpers.time(period.startsAt, timeZone, 'hour');
      if (Number(hour.slice(0, 2)) % everyHours !== 0) return [];
      const isMidnight = hour === '00:00';
      const day = isMidnight || index < everyHours ? dayOf(period, timeZone) : null;
      return [
        {
          x: middle(index),
          text: hour.slice(0, 2),
          wind: middle(index) > right - maxText ? '' : windText(period),
          isMidnight,
          day: isMidnight ? day : null,
        },
      ];
    }),
    nights: nightsOf(periods, step),
    summary: summaryOf(periods, units.temperature),
  };
}

function dayOf({ startsAt }: Period, timeZone: string | null): string {
  return textHelpers.time(startsAt, timeZone, 'row').split(' ').slice(0, 3).join(' ');
}

function windText({ windDirection, windSpeedMax }: Period): string {
  if (windSpeedMax === null) return '';
  return windSpeedMax === 0 ? 'calm' : `${windDirection ?? ''} ${Math.round(windSpeedMax)}`.trim();
}

/** Chooses a scale with round steps (2, 5, 10 and so on) and about five lines at most. */
function scaleOf(
  values: readonly number[],
  unit: string,
): { levels: Meteogram['levels']; yOf: (value: number) => number } {
  const least = Math.min(...values);
  const most = Math.max(...values);
  const step = [2, 5, 10, 20, 50].find((each) => (most - least) / each <= 5) ?? 100;
  const low = Math.floor(least / step) * step;
  const high = Math.max(Math.ceil(most / step) * step, low + step);
  const { top, bottom } = panels.temperature;
  const yOf = (value: number): number => rounded(bottom - ((value - low) / (high - low)) * (bottom - top));
  const count = Math.round((high - low) / step);
  const levels = Array.from({ length: count + 1 }, (_, index) => low + index * step);
  return {
    levels: levels.map((level) => ({
      y: yOf(level),
      text: quantity(level, unit).replace('\u00a0°', '°').slice(0, -1),
    })),
    yOf,
  };
}

function lineOf(
  values: readonly (number | null)[],
  xOf: (index: number) => number,
  yOf: (value: number) => number,
): string {
  let path = '';
  let isDrawing = false;
  values.forEach((value, index) => {
    if (value !== null) path += `${isDrawing ? 'L' : 'M'}${xOf(index)},${yOf(value)}`;
    isDrawing = value !== null;
  });
  return path;
}

function nightsOf(periods: readonly Period[], step: number): Meteogram['nights'] {
  const nights: Meteogram['nights'] = [];
  periods.forEach(({ isDaytime }, index) => {
    if (isDaytime) return;
    const x = rounded(left + step * index);
    const last = nights.at(-1);
    if (last !== undefined && Math.abs(last.x + last.width - x) < 0.5)
      last.width = rounded(last.width + step);
    else nights.push({ x, width: rounded(step) });
  });
  return nights;
}

function summaryOf(periods: readonly Period[], unit: string): string {
  const temperatures = periods.flatMap(({ temperature }) => temperature ?? []);
  const chances = periods.flatMap(({ precipitationProbability }) => precipitationProbability ?? []);
  const range = `${quantity(Math.min(...temperatures), unit)} to ${quantity(Math.max(...temperatures), unit)}`;
  const chance = chances.length === 0 ? '' : `, chance of precipitation up to ${Math.max(...chances)}%`;
  return `The next ${periods.length} hours: ${range}${chance}`;
}

function rounded(value: number): number {
  return Number(value.toFixed(1));
}
