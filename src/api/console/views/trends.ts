import { scaleLinear } from 'd3-scale';
import { area, curveStepAfter, line } from 'd3-shape';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { durationText, momentOf, plural, sizeText } from '../record-text.ts';

/**
 * A plot with the same width for each run, oldest first. The drawing is stretched to fit. The labels are HTML
 * next to it, so they stay the same size on every screen.
 */
export interface Plot {
  id: string;
  title: string;
  about: string;
  /** A sentence to show instead of the plot if it would be empty, otherwise null. */
  nothing: string | null;
  width: number;
  height: number;
  /**
   * SVG paths for values that stay the same until the next run, such as the published size. Empty for other
   * values.
   */
  area: string;
  line: string;
  /** Bars for values that belong to a single run, such as its duration. */
  bars: { x: number; y: number; width: number; height: number; title: string; isFailure: boolean }[];
  /** A horizontal line at the median. */
  marks: { y: number; name: string }[];
  /** The times of the first and the last run, and of the middle one if there are many. */
  ticks: string[];
  /** Labels for the value axis, evenly spaced from top to bottom. */
  levels: string[];
}

interface Point {
  at: number;
  value: number;
  isFailure: boolean;
}

const [width, height] = [1000, 100];
const maxBarWidth = 120;
/** The maximum number of points that can be distinguished at this width. Any more are merged. */
const maxPoints = 120;

/** Waiting times below this are hidden unless another run waited longer. */
const minWaitMs = 1000;

/** Plots durations, failures, transferred bytes, waiting times and sizes of bundles. */
export function trendsOf(runs: readonly RunRecord[]): Plot[] {
  const oldestFirst = [...runs].reverse();
  const ended = oldestFirst.filter((run) => run.finished_at !== null);
  const points = (valueOf: (run: RunRecord) => number, of = ended): Point[] =>
    of.map((run) => ({
      at: Date.parse(run.accepted_at),
      value: valueOf(run),
      isFailure: run.status === 'failed',
    }));
  const begun = ended.filter(({ started_at: at }) => at !== null);
  const published = ended.filter((run) => largestOf(run, outputsOf) > 0);
  const percentiles = { together: largest, text: durationText, unitOf: durationUnit, hasMarks: true };
  const failures = ended.filter(({ status }) => status === 'failed').length;
  return [
    plotOf('durations', 'Duration of runs', points(durationMs, begun), percentiles),
    plotOf('failures', 'Failed runs', points(failed), {
      ...{ together: sum, text: String },
      about: () => `${failures} of ${plural(ended.length, 'run')}`,
      nothing: failures === 0 ? 'No run failed.' : null,
    }),
    plotOf('queue', 'Waiting time of runs', points(waitedMs, begun), {
      ...percentiles,
      nothing: begun.every((run) => waitedMs(run) < minWaitMs) ? 'No run waited longer than a second.' : null,
    }),
    plotOf('bytes', 'Bytes written', points(written), { together: sum, text: sizeText, unitOf: sizeUnit }),
    plotOf(
      'release-bytes',
      'Size of each bundle',
      points((run) => largestOf(run, bytesOf), published),
      {
        ...{ together: last, text: sizeText, unitOf: sizeUnit },
      },
    ),
    plotOf(
      'release-files',
      'Files in each bundle',
      points((run) => largestOf(run, outputsOf), published),
      {
        ...{ together: last, text: (value) => value.toLocaleString('en-GB') },
      },
    ),
    plotOf('growth', 'Total size of the newest bundles', growth(ended), {
      ...{ together: last, text: sizeText, unitOf: sizeUnit, isContinuous: true },
    }),
  ];
}

type Destination = RunRecord['destinations'][number];

const durationMs = (run: RunRecord): number =>
  Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? '');
const waitedMs = (run: RunRecord): number => Date.parse(run.started_at ?? '') - Date.parse(run.accepted_at);
const failed = ({ status }: RunRecord): number => (status === 'failed' ? 1 : 0);
const written = ({ destinations }: RunRecord): number =>
  destinations.reduce((total, one) => total + one.bytes_written, 0);
const bytesOf = (one: Destination): number => one.bytes_written + one.bytes_linked + one.bytes_kept;
const outputsOf = (one: Destination): number => one.outputs_written + one.outputs_linked + one.outputs_kept;
/** Every destination gets the same bundle, so the largest value is the bundle's size. */
const largestOf = ({ destinations }: RunRecord, valueOf: (one: Destination) => number): number =>
  Math.max(0, ...destinations.filter(({ error }) => error === null).map(valueOf));
const largest = (values: readonly number[]): number => Math.max(...values);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const last = (values: readonly number[]): number => values.at(-1) ?? 0;

/** The content of a destination according to the last run of each bundle path. */
export interface Holding {
  id: string;
  /** Such as `2 bundles, 12 files, 10.8 KiB`. */
  text: string;
  bundles: { path: string; text: string; width: number }[];
}

/** Returns the content of each destination, from runs that are newest first. */
export function holdingsOf(runs: readonly RunRecord[]): Holding[] {
  const found = new Map<string, Map<string, Destination>>();
  const forAll = runs.filter(({ channel }) => channel === null);
  for (const one of forAll.flatMap(({ destinations }) => destinations)) {
    if (one.error !== null || one.destination_path === null || bytesOf(one) === 0) continue;
    const at = found.get(one.destination_id) ?? new Map<string, Destination>();
    if (!at.has(one.destination_path)) at.set(one.destination_path, one);
    found.set(one.destination_id, at);
  }
  const all = [...found.values()].flatMap((at) => [...at.values()]);
  const most = Math.max(1, ...all.map(bytesOf));
  const textOf = (some: readonly Destination[]): string =>
    `${plural(sum(some.map(outputsOf)), 'file')}, ${sizeText(sum(some.map(bytesOf)))}`;
  return [...found].map(([id, at]) => ({
    id,
    text: `${plural(at.size, 'bundle')}, ${textOf([...at.values()])}`,
    bundles: [...at]
      .sort(([, a], [, b]) => bytesOf(b) - bytesOf(a))
      .slice(0, maxBundles)
      .map(([path, one]) => ({
        path: path === '.' ? 'at the root' : path,
        text: textOf([one]),
        width: Math.max(1, round((100 * bytesOf(one)) / most)),
      })),
  }));
}

const maxBundles = 6;

/** Returns the total size of the published files after each run, summed over all bundle paths. */
function growth(runs: readonly RunRecord[]): Point[] {
  const sizes = new Map<string, number>();
  let total = 0;
  return runs.map((run) => {
    for (const one of run.destinations) {
      const size = bytesOf(one);
      if (one.error !== null || size === 0) continue;
      const place = JSON.stringify([one.destination_id, one.destination_path]);
      total += size - (sizes.get(place) ?? 0);
      sizes.set(place, size);
    }
    return { at: Date.parse(run.accepted_at), value: total, isFailure: false };
  });
}

interface PlotOptions {
  /** Combines the values of points that are merged into one. */
  together: (values: readonly number[]) => number;
  text: (value: number) => string;
  /** Returns the unit to use for axis labels up to this value, so that they are round numbers. Default: 1. */
  unitOf?: (value: number) => number;
  /** Draws a line that stays level until the next point, instead of bars. */
  isContinuous?: boolean;
  /** Mentions the 95th percentile, and adds a line at the median. */
  hasMarks?: boolean;
  about?: () => string;
  nothing?: string | null;
}

function plotOf(id: string, title: string, points: readonly Point[], options: PlotOptions): Plot {
  const { together, text, unitOf = () => 1, isContinuous = false } = options;
  const shown = condensed(points, together);
  const values = points.map(({ value }) => value);
  const percentiles = options.hasMarks === true && values.length > 0 ? percentilesOf(values) : [];
  const top = roundTop(Math.max(1, ...shown.map(({ value }) => value)), unitOf);
  const slot = width / Math.max(1, shown.length);
  const y = scaleLinear([0, top], [height, 0]);
  const barWidth = Math.min(maxBarWidth, 0.7 * slot);
  // A level begins at the left edge of its run, and the last one extends to the end.
  const steps = shown.length === 0 ? [] : [...shown, ...shown.slice(-1)];
  const across = (_: Point, index: number): number => round(index * slot);
  const up = ({ value }: Point): number => round(y(value));
  const known = [
    ...percentiles.map(({ name, value }) => `${name} ${text(value)}`),
    ...(percentiles.length > 0
      ? []
      : [`largest ${text(Math.max(0, ...values))}`, `newest ${text(last(values))}`]),
  ];
  return {
    ...{ id, title, width, height, nothing: options.nothing ?? null },
    about: values.length === 0 ? 'no run has ended yet' : (options.about?.() ?? known.join(', ')),
    area: isContinuous ? (area<Point>(across, height, up).curve(curveStepAfter)(steps) ?? '') : '',
    line: isContinuous ? (line<Point>(across, up).curve(curveStepAfter)(steps) ?? '') : '',
    bars: (isContinuous ? [] : shown)
      .map((point, index) => ({
        ...{ x: round((index + 0.5) * slot - barWidth / 2), y: up(point), width: round(barWidth) },
        height: round(height - y(point.value)),
        title: titleOf(point, text),
        isFailure: point.isFailure,
      }))
      .filter((_, index) => (shown[index]?.value ?? 0) > 0),
    marks: percentiles.slice(0, 1).map(({ name, value }) => ({ y: round(y(value)), name })),
    ticks: ticksOf(shown),
    levels: (top < 2 * unitOf(top) ? [top, 0] : [top, top / 2, 0]).map(text),
  };
}

function titleOf({ at, value, isFailure }: Point, text: (value: number) => string): string {
  const moment = momentOf(new Date(at).toISOString()).text;
  return `${text(value)}, ${moment}${isFailure ? ', failed' : ''}`;
}

/** Returns the median and the 95th percentile. For few values, the latter is the maximum. */
function percentilesOf(values: readonly number[]): { name: string; value: number }[] {
  return [
    { name: 'median', value: percentileOf(values, 0.5) },
    { name: values.length < 20 ? 'longest' : '95th percentile', value: percentileOf(values, 0.95) },
  ];
}

/** Returns a percentile by the nearest-rank method. `part` is between 0 and 1. Returns 0 without values. */
export function percentileOf(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
}

/**
 * Rounds `value` up to 1, 2, 4, 6, 8, 10, 12, 16, 20 … times its unit, so that the label halfway up is also a
 * round number.
 */
function roundTop(value: number, unitOf: (value: number) => number): number {
  const unit = unitOf(value);
  const power = 10 ** Math.floor(Math.log10(value / unit));
  const steps = power < 10 ? [1, 2, 4, 6, 8] : [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8];
  const step = steps.find((one) => one * power * unit >= value) ?? 10;
  return step * power * unit;
}

function durationUnit(ms: number): number {
  return [3_600_000, 60_000, 1000].find((unit) => ms >= unit) ?? 1;
}

function sizeUnit(bytes: number): number {
  return 1024 ** Math.max(0, Math.floor(Math.log(bytes) / Math.log(1024)));
}

function ticksOf(points: readonly Point[]): string[] {
  const ends = [points[0], ...(points.length > 8 ? [points[points.length >> 1]] : []), points.at(-1)];
  const times = (points.length < 2 ? points : ends).flatMap((point) => point?.at ?? []);
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
  return times.map((at, index) => tickText(new Date(at), span, index === 0));
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

function condensed(points: readonly Point[], together: (values: readonly number[]) => number): Point[] {
  const size = Math.max(1, Math.ceil(points.length / maxPoints));
  const groups = Array.from({ length: Math.ceil(points.length / size) }, (_, index) =>
    points.slice(index * size, (index + 1) * size),
  );
  return groups.map((group) => ({
    at: group.at(-1)?.at ?? 0,
    value: together(group.map(({ value }) => value)),
    isFailure: group.some(({ isFailure }) => isFailure),
  }));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
