/* Levels and times for the axes of plots: round numbers, and as precise as needed. */

/** Up to this many points have a time and a value of their own. */
export const maxLabels = 8;
/** A time that fits below a bar. */
const maxTickChars = 8;
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
 * Rounds `value` up to 1, 2, 4, 6, 8, 10, 12, 16, 20 … times its unit, so that the label halfway up is also a
 * round number.
 */
export function roundTop(value: number, unitOf: (value: number) => number): number {
  const unit = unitOf(value);
  const power = 10 ** Math.floor(Math.log10(value / unit));
  const steps = power < 10 ? [1, 2, 4, 6, 8] : [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8];
  const step = steps.find((one) => one * power * unit >= value) ?? 10;
  return step * power * unit;
}

export function durationUnit(ms: number): number {
  return [3_600_000, 60_000, 1000].find((unit) => ms >= unit) ?? 1;
}

export function sizeUnit(bytes: number): number {
  return 1024 ** Math.max(0, Math.floor(Math.log(bytes) / Math.log(1024)));
}

/** Returns the times of all points if there is room for them, and otherwise of the ends and the middle. */
export function ticksOf(points: readonly Timed[]): { ticks: string[]; hasEachTick: boolean } {
  const textsOf = (some: readonly Timed[], hasDay: boolean): string[] => {
    const span = (points.at(-1)?.at ?? 0) - (points[0]?.at ?? 0);
    return some.map(({ at }, index) => tickText(new Date(at), span, hasDay && index === 0));
  };
  const each = textsOf(points, false);
  if (points.length <= maxLabels && each.every((text) => text.length <= maxTickChars))
    return { ticks: each, hasEachTick: true };
  const ends = [points[0], ...(points.length > 8 ? [points[points.length >> 1]] : []), points.at(-1)];
  const some = ends.flatMap((point) => point ?? []);
  return { ticks: textsOf(some, true), hasEachTick: false };
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
