import { type HourlyForecastData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { iconOf, quantity, wholeDegrees } from './words.ts';

/** A chart of the next hours: sky, temperature, dew point, chance of precipitation and wind. */
export interface Meteogram {
  width: number;
  height: number;
  /** The left and right edges of both panels. */
  left: number;
  right: number;
  /** The upper and lower edges of the two parts of the chart. */
  panels: { temperature: Panel; precipitation: Panel };
  /** SVG path data. Hours without a value leave a gap. */
  temperature: string;
  dewpoint: string;
  /** Labeled horizontal grid lines. */
  levels: { y: number; text: string }[];
  bars: { x: number; y: number; width: number; height: number }[];
  hours: { x: number; text: string; wind: string; icon: string | null; isMidnight: boolean }[];
  /** The names of the days, where each begins. */
  days: { x: number; text: string }[];
  nights: { x: number; width: number }[];
  /** A description of the chart for screen readers. */
  summary: string;
}

interface Panel {
  top: number;
  bottom: number;
}

type Period = HourlyForecastData['periods'][number];

/** The measures of a chart, in CSS pixels at its natural size. */
interface Layout {
  width: number;
  left: number;
  right: number;
  maxHours: number;
  /** Whether there is room for the direction of the wind. */
  hasDirections: boolean;
}

const layouts = {
  wide: { width: 960, left: 44, right: 948, maxHours: Infinity, hasDirections: true },
  phone: { width: 296, left: 38, right: 288, maxHours: 24, hasDirections: false },
} as const satisfies Record<string, Layout>;
const height = 326;
const panels = { temperature: { top: 72, bottom: 200 }, precipitation: { top: 230, bottom: 284 } };
const everyHours = 3;
/** Half the width of a label below the chart, and the width of the name of a day. */
const maxText = 20;
const dayWidth = 84;

/** Draws a chart for an hourly forecast. Returns null if fewer than two hours have a temperature. */
export function meteogram(
  { periods: all, timeZone, units }: HourlyForecastData,
  layoutName: keyof typeof layouts = 'wide',
): Meteogram | null {
  const layout: Layout = layouts[layoutName];
  const { left, right } = layout;
  const periods = all.slice(0, layout.maxHours);
  const values = periods.flatMap(({ temperature, dewpoint }) =>
    [temperature, dewpoint].filter((one) => one !== null),
  );
  if (periods.filter(({ temperature }) => temperature !== null).length < 2) return null;
  const step = (right - left) / periods.length;
  const middle = (index: number): number => rounded(left + step * (index + 0.5));
  const { levels, yOf } = scaleOf(values, units.temperature);
  const line = (of: 'temperature' | 'dewpoint'): string =>
    lineOf(
      periods.map((period) => period[of]),
      middle,
      yOf,
    );
  return {
    ...{ width: layout.width, height, left, right, panels, levels },
    temperature: line('temperature'),
    dewpoint: line('dewpoint'),
    bars: barsOf(periods, step, left),
    hours: hoursOf(periods, timeZone, { layout, middle }),
    days: daysOf(periods, timeZone, { layout, middle }),
    nights: nightsOf(periods, step, left),
    summary: summaryOf(periods, units.temperature),
  };
}

function barsOf(periods: readonly Period[], step: number, left: number): Meteogram['bars'] {
  const { top, bottom } = panels.precipitation;
  return periods.flatMap(({ precipitationProbability: percent }, index) => {
    if (percent === null || percent <= 0) return [];
    const size = rounded(((bottom - top) * Math.min(percent, 100)) / 100);
    const x = rounded(left + step * index + 0.5);
    return [{ x, y: rounded(bottom - size), width: rounded(step - 1), height: size }];
  });
}

interface Place {
  layout: Layout;
  middle: (index: number) => number;
}

function hoursOf(
  periods: readonly Period[],
  timeZone: string | null,
  { layout, middle }: Place,
): Meteogram['hours'] {
  return periods.flatMap((period, index) => {
    const hour = textHelpers.time(period.startsAt, timeZone, 'hour');
    if (Number(hour.slice(0, 2)) % everyHours !== 0) return [];
    const x = middle(index);
    return [
      {
        x,
        text: hour.slice(0, 2),
        wind: hasWind(hour, x, layout) ? windText(period, layout) : '',
        icon: iconOf(period.shortForecast, period.isDaytime),
        isMidnight: hour === '00:00',
      },
    ];
  });
}

/** Wind with a direction is as wide as the distance of two labels. */
function hasWind(hour: string, x: number, { hasDirections, right }: Layout): boolean {
  if (!hasDirections) return true;
  return Number(hour.slice(0, 2)) % (2 * everyHours) === 0 && x <= right - maxText;
}

/** Names the first day and each day that begins in the chart. The first one needs room before midnight. */
function daysOf(
  periods: readonly Period[],
  timeZone: string | null,
  { layout, middle }: Place,
): Meteogram['days'] {
  const midnights = periods.flatMap((period, index) =>
    textHelpers.time(period.startsAt, timeZone, 'hour') === '00:00'
      ? [{ x: middle(index), text: dayOf(period, timeZone) }]
      : [],
  );
  const [first] = periods;
  const hasRoom = (midnights[0]?.x ?? layout.right) - layout.left > dayWidth;
  return [
    ...(first !== undefined && hasRoom ? [{ x: layout.left, text: dayOf(first, timeZone) }] : []),
    ...midnights.filter(({ x }) => layout.right - x > dayWidth),
  ];
}

function dayOf({ startsAt }: Period, timeZone: string | null): string {
  return textHelpers.time(startsAt, timeZone, 'row').split(' ').slice(0, 3).join(' ');
}

function windText({ windDirection, windSpeedMax }: Period, { hasDirections }: Layout): string {
  if (windSpeedMax === null) return '';
  const speed = String(Math.round(windSpeedMax));
  if (!hasDirections) return speed;
  return windSpeedMax === 0 ? 'calm' : `${windDirection ?? ''} ${speed}`.trim();
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

function nightsOf(periods: readonly Period[], step: number, left: number): Meteogram['nights'] {
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
  const range = `${wholeDegrees(Math.min(...temperatures), unit)} to ${wholeDegrees(Math.max(...temperatures), unit)}`;
  const chance = chances.length === 0 ? '' : `, chance of precipitation up to ${Math.max(...chances)}%`;
  return `The next ${periods.length} hours: ${range}${chance}`;
}

function rounded(value: number): number {
  return Number(value.toFixed(1));
}
