/* Levels and times for the axes of plots: round numbers, and as precise as needed. */

/** Up to this many points have a time and a value of their own. */
export const maxLabels = 8;
/** A time that fits below a bar. */
const maxTickChars = 8;
/** The height that a label takes above its bar, with a margin, in percent. */
const labelHeight = 18;
/** From this many values on, one of them may be cut off. */
const minToCut = 4;

/**
 * Returns the value at which the axis may end. Usually it is the largest one. If one of twenty values is much
 * larger than all others, it would flatten them, so the axis ends above the others.
 */
export function limitOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => b - a);
  const [max = 0] = sorted;
  const usual = values.length < minToCut ? 0 : (sorted[Math.max(1, Math.floor(values.length / 20))] ?? 0);
  return usual > 0 && max > 4 * usual ? 1.25 * usual : max;
}

/**
 * Rounds `value` up to 1, 2, 3, 4, 6, 8, 10, 12, 16, 20 … times its unit, so that the label halfway up is a
 * round number, too.
 */
export function roundTop(value: number, unitOf: (value: number) => number): number {
  const unit = unitOf(value);
  const power = 10 ** Math.floor(Math.log10(value / unit));
  const steps = power < 10 ? [1, 2, 3, 4, 6, 8] : [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8];
  const step = steps.find((one) => one * power * unit >= value) ?? 10;
  return step * power * unit;
}

export function durationUnit(ms: number): number {
  return [3_600_000, 60_000, 1000].find((unit) => ms >= unit) ?? 1;
}

export function sizeUnit(bytes: number): number {
  return 1024 ** Math.max(0, Math.floor(Math.log(bytes) / Math.log(1024)));
}

/**
 * Returns the times of all points if there is room for them, and otherwise of the ends and the middle. Each
 * is centered below its point, unless it would extend beyond the end of the axis.
 */
export function ticksOf(points: readonly Timed[]): { ticks: Tick[]; hasEachTick: boolean } {
  const span = (points.at(-1)?.at ?? 0) - (points[0]?.at ?? 0);
  const last = points.length - 1;
  const ticksAt = (indexes: readonly number[], hasDay: boolean): Tick[] =>
    indexes.map((index) => {
      const text = tickText(new Date(points[index]?.at ?? 0), span, hasDay && index === 0);
      const isShort = text.length <= maxTickChars;
      const anchor =
        last === 0 || (isShort && (index < last || points.length <= maxLabels))
          ? 'middle'
          : index === 0
            ? 'start'
            : index === last
              ? 'end'
              : 'middle';
      const across = anchor === 'middle' ? (index + 0.5) / points.length : anchor === 'start' ? 0 : 1;
      return { x: Math.round(1000 * across) / 10, text, anchor };
    });
  const each = ticksAt([...points.keys()], false);
  if (points.length <= maxLabels && each.every(({ text }) => text.length <= maxTickChars))
    return { ticks: each, hasEachTick: true };
  const some = points.length > maxLabels ? [0, points.length >> 1, last] : [0, last];
  return { ticks: ticksAt([...new Set(some)], true), hasEachTick: false };
}

/** A time below the axis. `x` is a percentage. */
export interface Tick {
  x: number;
  text: string;
  anchor: 'start' | 'middle' | 'end';
}

interface Timed {
  at: number;
}

const dayText = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** Formats a time in UTC, more precisely if the plot covers a shorter period. The first one has the date. */
function tickText(at: Date, spanMs: number, isFirst: boolean): string {
  const iso = at.toISOString();
  const day = isFirst ? `${dayText.format(at)}, ` : '';
  if (spanMs < 5 * 60_000) return `${day}${iso.slice(11, 19)}`;
  if (spanMs < 12 * 3_600_000) return `${day}${iso.slice(11, 16)}`;
  if (spanMs < 3 * 86_400_000) return `${dayText.format(at)}, ${iso.slice(11, 16)}`;
  return dayText.format(at);
}

/** Returns where a label is on top of its bar, or on the line of the median if the line would cross it. */
export function above(y: number, line: number | null): number {
  return line !== null && line < y && line > y - labelHeight ? Math.round(10 * line) / 10 : y;
}
