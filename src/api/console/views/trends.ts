import { scaleLinear } from 'd3-scale';
import { area, curveStepAfter, line } from 'd3-shape';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { durationText, momentOf, plural, sizeText } from '../record-text.ts';
import {
  above,
  durationUnit,
  limitOf,
  maxLabels,
  roundTop,
  sizeUnit,
  type Tick,
  ticksOf,
} from './plot-axis.ts';
import { bytesOf, type Destination, durationMs, medianOf, outputsOf, waitedMs } from './trend-facts.ts';

/**
 * A plot with the same width for each run, oldest first. The drawing is stretched to fit. The labels are HTML
 * next to it, so they stay the same size on every screen.
 */
export interface Plot {
  id: string;
  title: string;
  about: string;
  /** Whether it says more than a single number. */
  isShown: boolean;
  width: number;
  height: number;
  /**
   * SVG paths for values that stay the same until the next run, such as the published size. Empty for other
   * values.
   */
  area: string;
  line: string;
  /** Bars for values that belong to a single run, such as its duration. */
  bars: Bar[];
  /**
   * The values, if there are few, and those of bars that are cut off or of failed runs. `x` and `y` are
   * percentages. The text of a failed run is empty if there are many bars.
   */
  labels: { x: number; y: number; text: string; isFailure: boolean }[];
  /** A horizontal line at the median. */
  marks: { y: number; name: string }[];
  /** The times of the first and the last run, and of the middle one if there are many. */
  ticks: Tick[];
  /** Whether every run has a tick, below its bar. */
  hasEachTick: boolean;
  /** Whether there is room for the labels of only some runs on a phone. */
  isDense: boolean;
  /** Labels for the value axis, evenly spaced from top to bottom. */
  levels: string[];
}

interface Bar extends Record<'x' | 'y' | 'width' | 'height', number> {
  title: string;
  isFailure: boolean;
  /** Whether it is so much longer than the others that it is not drawn to its end. */
  isCut: boolean;
  /** The run to link to; null if the bar stands for several, or if there are many bars. */
  runId: string | null;
}

interface Point {
  at: number;
  value: number;
  isFailure: boolean;
  runId: string | null;
}

const [width, height] = [1000, 100];
const maxBarWidth = 60;
/** The maximum number of points that can be distinguished at this width. Any more are merged. */
const maxPoints = 120;
const maxPhoneLabels = 4;
/** Up to this many bars are links, which take most of the size of the page. */
const maxLinks = 40;

/** Waiting times below this are hidden unless another run waited longer. */
const minWaitMs = 1000;

/** With fewer runs, a list of them says more than plots. */
export const minPlottedRuns = 5;

/** Plots durations, failures, transferred bytes, waiting times and sizes of bundles. */
export function trendsOf(runs: readonly RunRecord[]): Plot[] {
  const oldestFirst = [...runs].reverse();
  const ended = oldestFirst.filter((run) => run.finished_at !== null);
  const points = (valueOf: (run: RunRecord) => number, of = ended): Point[] =>
    of.map((run) => ({
      at: Date.parse(run.accepted_at),
      value: valueOf(run),
      isFailure: run.status === 'failed',
      runId: run.run_id,
    }));
  const begun = ended.filter(({ started_at: at }) => at !== null);
  const published = ended.filter((run) => largestOf(run, outputsOf) > 0);
  const medians = { together: largest, text: durationText, unitOf: durationUnit, hasMedian: true };
  const failures = ended.filter(({ status }) => status === 'failed').length;
  return [
    plotOf('durations', 'Duration of runs', points(durationMs, begun), { ...medians, isShown: true }),
    // Fewer failed runs are marked in the plot of the durations.
    plotOf('failures', 'Failed runs', points(failed), {
      ...{ together: sum, text: String, isShown: failures > 0 && ended.length > maxPoints },
      about: () => `${failures} of ${plural(ended.length, 'run')}`,
    }),
    plotOf('queue', 'Waiting time of runs', points(waitedMs, begun), {
      ...{ ...medians, isShown: begun.some((run) => waitedMs(run) >= minWaitMs) },
    }),
    plotOf('bytes', 'Bytes written', points(written), {
      ...{ together: sum, text: sizeText, unitOf: sizeUnit },
    }),
    plotOf('release-bytes', 'Size of each bundle', points(largestBy(bytesOf), published), {
      ...{ together: last, text: sizeText, unitOf: sizeUnit },
    }),
    plotOf('release-files', 'Files in each bundle', points(largestBy(outputsOf), published), {
      ...{ together: last, text: (value) => value.toLocaleString('en-GB') },
    }),
    plotOf('growth', 'Total size of the newest bundles', growth(ended), {
      ...{ together: last, text: sizeText, unitOf: sizeUnit, isContinuous: true },
    }),
  ];
}

const failed = ({ status }: RunRecord): number => (status === 'failed' ? 1 : 0);
const written = ({ destinations }: RunRecord): number =>
  destinations.reduce((total, one) => total + one.bytes_written, 0);
/** Every destination gets the same bundle, so the largest value is the bundle's size. */
const largestOf = ({ destinations }: RunRecord, valueOf: (one: Destination) => number): number =>
  Math.max(0, ...destinations.filter(({ error }) => error === null).map(valueOf));
const largestBy =
  (valueOf: (one: Destination) => number) =>
  (run: RunRecord): number =>
    largestOf(run, valueOf);
const largest = (values: readonly number[]): number => Math.max(...values);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const last = (values: readonly number[]): number => values.at(-1) ?? 0;

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
    return { at: Date.parse(run.accepted_at), value: total, isFailure: false, runId: null };
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
  /** Adds a line at the median, and explains the bars. */
  hasMedian?: boolean;
  about?: () => string;
  /** Default: whether it has different values above zero. */
  isShown?: boolean;
}

function plotOf(id: string, title: string, points: readonly Point[], options: PlotOptions): Plot {
  const { together, text, unitOf = () => 1, isContinuous = false } = options;
  const shown = condensed(points, together);
  const values = points.map(({ value }) => value);
  const median = options.hasMedian === true && values.length > 0 ? medianOf(values) : null;
  const top = roundTop(Math.max(1, limitOf(shown.map(({ value }) => value))), unitOf);
  const slot = width / Math.max(1, shown.length);
  const y = scaleLinear([0, top], [height, 0]).clamp(true);
  // A level begins at the left edge of its run, and the last one extends to the end.
  const steps = shown.length === 0 ? [] : [...shown, ...shown.slice(-1)];
  const across = (_: Point, index: number): number => round(index * slot);
  const up = ({ value }: Point): number => round(y(value));
  const cut = shown.filter(({ value }) => value > top).length;
  const { labels, hasCrosses } = labelsOf(isContinuous ? [] : shown, {
    ...{ top, up, text },
    line: median === null ? null : y(median),
  });
  const known = [
    ...(median === null
      ? [`Largest ${text(Math.max(0, ...values))}, newest ${text(last(values))}.`]
      : [
          `Each bar is ${condensedBy(points) === 1 ? 'a run' : `the longest of ${condensedBy(points)} runs`}.`,
          `Dashed line: median ${text(median)}.`,
          ...(hasCrosses ? ['Red, ✕: failed.'] : []),
        ]),
    ...(cut === 0 ? [] : [`${plural(cut, 'long bar')} cut off.`]),
  ];
  return {
    ...{
      id,
      title,
      width,
      height,
      labels,
      isShown: options.isShown ?? new Set(values.filter((one) => one > 0)).size > 1,
    },
    about: options.about?.() ?? known.join(' '),
    area: isContinuous ? (area<Point>(across, height, up).curve(curveStepAfter)(steps) ?? '') : '',
    line: isContinuous ? (line<Point>(across, up).curve(curveStepAfter)(steps) ?? '') : '',
    bars: isContinuous ? [] : barsOf(shown, { top, up, text }),
    marks: median === null ? [] : [{ y: round(y(median)), name: 'median' }],
    ...ticksOf(shown),
    isDense: shown.length > maxPhoneLabels,
    levels: [...(top < 2 * unitOf(top) ? [top] : [top, top / 2]).map(text), '0'],
  };
}

function labelsOf(
  shown: readonly Point[],
  {
    top,
    up,
    text,
    line,
  }: {
    top: number;
    up: (point: Point) => number;
    text: (value: number) => string;
    /** The height of the line of the median; null if there is none. */
    line: number | null;
  },
): { labels: Plot['labels']; hasCrosses: boolean } {
  const labels = shown.flatMap((point, index) => {
    const isFailure = point.isFailure && shown.length <= maxLinks;
    const hasText = point.value > top || (shown.length <= maxLabels && point.value > 0);
    const x = round(((index + 0.5) * 100) / shown.length);
    return hasText || isFailure
      ? [{ x, y: above(up(point), line), text: hasText ? text(point.value) : '', isFailure }]
      : [];
  });
  return { labels, hasCrosses: labels.some(({ isFailure }) => isFailure) };
}

function barsOf(
  shown: readonly Point[],
  { top, up, text }: { top: number; up: (point: Point) => number; text: (value: number) => string },
): Bar[] {
  const slot = width / Math.max(1, shown.length);
  const barWidth = Math.min(maxBarWidth, 0.7 * slot);
  return shown
    .map((point, index) => ({
      ...{ x: round((index + 0.5) * slot - barWidth / 2), y: up(point), width: round(barWidth) },
      height: round(height - up(point)),
      title: titleOf(point, text),
      isFailure: point.isFailure,
      isCut: point.value > top,
      runId: shown.length <= maxLinks ? point.runId : null,
    }))
    .filter((_, index) => (shown[index]?.value ?? 0) > 0);
}

function titleOf({ at, value, isFailure }: Point, text: (value: number) => string): string {
  const moment = momentOf(new Date(at).toISOString()).text;
  return `${text(value)}, ${moment}${isFailure ? ', failed' : ''}`;
}

/** Returns how many points are merged into one. */
function condensedBy(points: readonly Point[]): number {
  return Math.max(1, Math.ceil(points.length / maxPoints));
}

function condensed(points: readonly Point[], together: (values: readonly number[]) => number): Point[] {
  const size = condensedBy(points);
  const groups = Array.from({ length: Math.ceil(points.length / size) }, (_, index) =>
    points.slice(index * size, (index + 1) * size),
  );
  return groups.map((group) => ({
    at: group.at(-1)?.at ?? 0,
    value: together(group.map(({ value }) => value)),
    isFailure: group.some(({ isFailure }) => isFailure),
    runId: group.length === 1 ? (group[0]?.runId ?? null) : null,
  }));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
