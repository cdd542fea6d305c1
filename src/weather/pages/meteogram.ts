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
  hours: {
    x: number;
    text: string;
    /** The speed of the wind, and the direction that it comes from in degrees; null if it is unknown. */
    wind: string;
    from: number | null;
    icon: string | null;
    isMidnight: boolean;
  }[];
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
}

const layouts = {
  wide: { width: 960, left: 44, right: 948, maxHours: 48 },
  phone: { width: 296, left: 43, right: 288, maxHours: 24 },
} as const satisfies Record<string, Layout>;
const height = 358;
const panels = { temperature: { top: 72, bottom: 200 }, precipitation: { top: 238, bottom: 294 } };
const everyHours = 3;
/** The width of the name of a day. */
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
    hours: hoursOf(periods, timeZone, middle),
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
  middle: Place['middle'],
): Meteogram['hours'] {
  return periods.flatMap((period, index) => {
    const hour = textHelpers.time(period.startsAt, timeZone, 'hour');
    if (Number(hour.slice(0, 2)) % everyHours !== 0) return [];
    const { windDirection, windSpeedMax } = period;
    return [
      {
        x: middle(index),
        text: hour.slice(0, 2),
        wind: windSpeedMax === null ? '' : String(Math.round(windSpeedMax)),
        from: windSpeedMax === 0 ? null : degreesOf(windDirection),
        icon: iconOf(period.shortForecast, period.isDaytime),
        isMidnight: hour === '00:00',
      },
    ];
  });
}

const directions = Array.from({ length: 16 }, (_, index) => index * 22.5);

/** Returns the degrees of a compass point, or null for anything else. */
function degreesOf(point: string | null): number | null {
  return directions.find((degrees) => textHelpers.compass(degrees) === point) ?? null;
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
