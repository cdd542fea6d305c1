import { scaleLinear, type ScaleTime, scaleUtc } from 'd3-scale';
import { area, line } from 'd3-shape';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { durationText, momentOf, plural, sizeText } from '../record-text.ts';

/** A plot over time, in units of its view box. */
export interface Plot {
  id: string;
  title: string;
  about: string;
  width: number;
  height: number;
  /** The left edge of the plot area, right of the level labels. */
  left: number;
  /** SVG paths of a quantity that is continuous between runs. Empty without data, and for counts. */
  area: string;
  line: string;
  /** Counts, which have no value between two runs. */
  bars: { x: number; y: number; width: number; height: number; title: string }[];
  /** The last label may end at its tick, so that the edge does not cut it. */
  ticks: { x: number; label: string; anchor: 'middle' | 'end' }[];
  levels: { y: number; label: string }[];
}

interface Point {
  at: number;
  value: number;
}

const [width, height] = [720, 180];
const margin = { top: 8, right: 12, bottom: 28, left: 100 };
const barWidth = 4;
/** The maximum number of distinguishable points at this width. More points are merged. */
const maxPoints = 120;

/** Plots of durations, failures, bytes, waiting times and total published size. Pure. */
export function trendsOf(runs: readonly RunRecord[]): Plot[] {
  const oldestFirst = [...runs].reverse();
  const ended = oldestFirst.filter((run) => run.finished_at !== null);
  const points = (valueOf: (run: RunRecord) => number, of = ended): Point[] =>
    of.map((run) => ({ at: Date.parse(run.accepted_at), value: valueOf(run) }));
  const begun = ended.filter(({ started_at: at }) => at !== null);
  return [
    plotOf('durations', 'How long runs took', points(tookMs, begun), {
      together: largest,
      text: durationText,
    }),
    plotOf('failures', 'Failed runs', points(failed), {
      ...{ together: sum, text: String, isCount: true },
      about: (values) => `${sum(values)} of ${plural(ended.length, 'run')}`,
    }),
    plotOf('bytes', 'Bytes written', points(written), { together: sum, text: sizeText }),
    plotOf('queue', 'How long runs waited', points(waitedMs, begun), {
      together: largest,
      text: durationText,
    }),
    plotOf('growth', 'Bytes published', growth(ended), { together: last, text: sizeText }),
  ];
}

const tookMs = (run: RunRecord): number =>
  Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? '');
const waitedMs = (run: RunRecord): number => Date.parse(run.started_at ?? '') - Date.parse(run.accepted_at);
const failed = ({ status }: RunRecord): number => (status === 'failed' ? 1 : 0);
const written = ({ destinations }: RunRecord): number =>
  destinations.reduce((total, one) => total + one.bytes_written, 0);
const largest = (values: readonly number[]): number => Math.max(...values);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const last = (values: readonly number[]): number => values.at(-1) ?? 0;

/** The total size of the published files after each run, summed over all bundle paths. */
function growth(runs: readonly RunRecord[]): Point[] {
  const sizes = new Map<string, number>();
  let total = 0;
  return runs.map((run) => {
    for (const one of run.destinations) {
      const size = one.bytes_written + one.bytes_linked + one.bytes_kept;
      if (one.error !== null || size === 0) continue;
      const place = JSON.stringify([one.destination_id, one.destination_path]);
      total += size - (sizes.get(place) ?? 0);
      sizes.set(place, size);
    }
    return { at: Date.parse(run.accepted_at), value: total };
  });
}

interface PlotOptions {
  /** Merges the values of several points into one. */
  together: (values: readonly number[]) => number;
  text: (value: number) => string;
  /** The values are counts. */
  isCount?: boolean;
  about?: (values: readonly number[]) => string;
}

function plotOf(id: string, title: string, points: readonly Point[], options: PlotOptions): Plot {
  const { together, text, isCount = false } = options;
  const told = (values: readonly number[]): string =>
    `at most ${text(largest(values))}, last ${text(last(values))}`;
  const { about = told } = options;
  const shown = condensed(points, together);
  const values = shown.map(({ value }) => value);
  const most = Math.max(1, ...values);
  const span = (shown.at(-1)?.at ?? 0) - (shown[0]?.at ?? 0);
  const hasMiddle = most > 1 && !(isCount && most % 2 === 1);
  const x = scaleUtc(
    [new Date(shown[0]?.at ?? 0), new Date(shown.at(-1)?.at ?? 1)],
    [margin.left, width - margin.right],
  );
  const y = scaleLinear([0, most], [height - margin.bottom, margin.top]);
  const across = (point: Point): number => round(x(new Date(point.at)));
  const up = ({ value }: Point): number => round(y(value));
  const bottom = height - margin.bottom;
  return {
    ...{ id, title, width, height, left: margin.left },
    about: values.length === 0 ? 'no run has ended yet' : about(values),
    area: isCount ? '' : (area<Point>(across, bottom, up)(shown) ?? ''),
    line: isCount ? '' : (line<Point>(across, up)(shown) ?? ''),
    bars: (isCount ? shown : [])
      .filter(({ value }) => value > 0)
      .map((point) => ({
        ...{ x: across(point) - barWidth / 2, y: up(point), width: barWidth },
        height: round(bottom - y(point.value)),
        title: `${text(point.value)}, ${momentOf(new Date(point.at).toISOString()).text}`,
      })),
    ticks: shown.length < 2 ? [] : ticksOf(x, span),
    levels: (hasMiddle ? [0, most / 2, most] : [0, most]).map((value) => ({
      y: round(y(value)),
      label: text(value),
    })),
  };
}

/** The maximum number of time labels below a plot, also on a phone. */
const maxTicks = 4;

function ticksOf(x: ScaleTime<number, number>, spanMs: number): Plot['ticks'] {
  const all = x.ticks(maxTicks).map((at): Plot['ticks'][number] => {
    const place = round(x(at));
    return { x: place, label: tickText(at, spanMs), anchor: place > width - 60 ? 'end' : 'middle' };
  });
  const told = all.filter(({ label }, index) => label !== all[index - 1]?.label);
  const step = Math.ceil(told.length / maxTicks);
  return told.filter((_, index) => index % step === 0);
}

const dayText = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** A label in UTC, with a precision that matches the span of the plot. */
function tickText(at: Date, spanMs: number): string {
  const iso = at.toISOString();
  if (spanMs < 2 * 60_000) return iso.slice(11, 19);
  if (spanMs < 36 * 3_600_000) return iso.slice(11, 16);
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
  }));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
