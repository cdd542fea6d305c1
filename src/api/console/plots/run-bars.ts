import { scaleLinear } from 'd3-scale';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { durationOf, durationText, momentOf, plural, statusMark, type Tone } from '../words.ts';

/** A bar for each run, the oldest first: its height is how long it took. In units of the view box. */
export interface RunBars {
  width: number;
  height: number;
  bars: { x: number; y: number; width: number; height: number; tone: Tone; title: string }[];
  /** Of the runs shown. */
  failed: number;
  total: number;
  /** What the picture says, for whoever does not see it. */
  about: string;
}

const most = 30;
const [width, height, gap, least] = [240, 40, 2, 4];

/** Of the newest runs, of these that come newest first. Pure. */
export function runBars(runs: readonly RunRecord[], now: Date): RunBars {
  const shown = runs.slice(0, most).reverse();
  const durations = shown.map((run) => durationOf(run, now) ?? 0);
  const tall = scaleLinear([0, Math.max(1, ...durations)], [least, height]);
  const step = width / most;
  // The newest is always at the right edge.
  const from = width - shown.length * step;
  const bars = shown.map((run, index) => {
    const size = round(tall(durations[index] ?? 0));
    return {
      ...{ x: round(from + index * step), y: round(height - size), width: step - gap, height: size },
      tone: statusMark(run).tone,
      title: [
        statusMark(run).label,
        momentOf(run.accepted_at).text,
        durationText(durations[index] ?? 0),
      ].join(', '),
    };
  });
  const failed = shown.filter(({ status }) => status === 'failed').length;
  return { width, height, bars, failed, total: shown.length, about: aboutOf(shown, failed, durations) };
}

function aboutOf(shown: readonly RunRecord[], failed: number, durations: readonly number[]): string {
  if (shown.length === 0) return 'no runs yet';
  const typical = [...durations].sort((a, b) => a - b)[Math.floor(durations.length / 2)] ?? 0;
  return `${plural(shown.length, 'run')}, ${failed} failed, typically ${durationText(typical)}`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
