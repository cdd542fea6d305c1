import { scaleLinear } from 'd3-scale';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../pipelines/pipelines-route.ts';
import {
  ageText,
  durationOf,
  durationText,
  type Mark,
  type Moment,
  momentOf,
  plural,
  statusMark,
  type Tone,
} from '../record-text.ts';
import { failureOf, sentence } from './error-view.ts';
import { medianOf } from './trend-facts.ts';

export interface PipelineCard {
  id: string;
  /** How runs are started when there is no schedule. */
  startedBy: string;
  state: Mark;
  lastSuccess: (Moment & { age: string; runId: string }) | null;
  nextRun: (Moment & { age: string }) | null;
  isPaused: boolean;
  waiting: number;
  destinations: number;
  /** The last run's error, if it failed. */
  error: ReturnType<typeof failureOf>;
  trend: RunBars;
}

/**
 * Builds a card for each pipeline from its newest runs, which must be sorted newest first. Pipelines that
 * need attention are at the top.
 */
export function overviewView(
  pipelines: readonly { state: PipelineState; runs: readonly RunRecord[] }[],
  now: Date,
): PipelineCard[] {
  const cards = pipelines.map(({ state, runs }) => ({
    id: state.pipeline_id,
    startedBy: startedBy(state),
    isPaused: state.paused !== null,
    state: stateMark(state),
    lastSuccess:
      state.last_success === null
        ? null
        : {
            ...momentOf(state.last_success.finished_at),
            age: ageText(state.last_success.finished_at, now),
            runId: state.last_success.run_id,
          },
    nextRun:
      state.next_run === null ? null : { ...momentOf(state.next_run), age: ageText(state.next_run, now) },
    waiting: state.waiting,
    destinations: state.destinations.length,
    error: failureOf(state.last_run),
    trend: runBars(runs, now),
  }));
  return cards.sort((a, b) => urgency(b) - urgency(a));
}

function startedBy({ paused, source, watch }: PipelineState): string {
  if (paused !== null) return 'on resume';
  if (source.backend === 'http_upload') return 'on upload';
  return watch ? 'when the source changes' : 'on demand';
}

function urgency({ error, isPaused, trend }: PipelineCard): number {
  if (error !== null) return 3;
  if (isPaused) return 2;
  return trend.failed > 0 ? 1 : 0;
}

/** Describes what a pipeline is doing now, or how its last run ended if it is idle. */
function stateMark({
  paused,
  running,
  last_run: last,
}: Pick<PipelineState, 'paused' | 'running' | 'last_run'>): Mark {
  if (running !== null) return { label: 'running', tone: 'running', symbol: '▸' };
  if (paused !== null) return { label: 'paused', tone: 'warning', symbol: '‖' };
  return last === null ? { label: 'no runs yet', tone: 'neutral', symbol: '○' } : statusMark(last);
}

/** The problem of a pipeline that a visitor has to know first. */
export interface StatusSummary extends Pick<Mark, 'tone'> {
  heading: string;
  /** The run that this is about; null if there is none. */
  runId: string | null;
  /** The error or the reason of the pause; null if the heading says everything. */
  text: string | null;
  /** The effect of a pause on runs and uploads; null if the pipeline is not paused. */
  waits: string | null;
  /** The last run if it failed, but something else is more important. */
  failedRunId: string | null;
}

/** Returns null if the pipeline has no problem, because its badge then says everything. */
export function statusSummaryOf(state: PipelineState): StatusSummary | null {
  const { last_run: last, paused } = state;
  const error = failureOf(last);
  if (paused !== null)
    return {
      tone: 'warning',
      heading: `Paused since ${momentOf(paused.since).text}`,
      runId: null,
      ...{
        text: paused.reason === null ? null : sentence(paused.reason.replace(/\.?$/, '.')),
        waits: waitsText(state),
      },
      failedRunId: error?.runId ?? null,
    };
  if (last === null || error === null || error.code === 'cancelled') return null;
  const { runId, title, text } = error;
  return { tone: 'failure', runId, failedRunId: null, heading: title, text, waits: null };
}

function waitsText({ source, waiting }: PipelineState): string {
  const runs =
    waiting === 0
      ? 'No run starts until the pipeline is resumed.'
      : `${plural(waiting, 'run')} ${waiting === 1 ? 'waits' : 'wait'} until the pipeline is resumed.`;
  return source.backend === 'http_upload' ? `${runs} Uploads are still accepted.` : runs;
}

interface RunBar {
  runId: string;
  x: number;
  y: number;
  width: number;
  height: number;
  tone: Tone;
  title: string;
  /** The path of a cross above the bar; null if the run did not fail. */
  cross: string | null;
}

/** A bar chart of recent runs, oldest first. The height of a bar is the run's duration, in SVG units. */
export interface RunBars {
  width: number;
  height: number;
  bars: RunBar[];
  /** The places of earlier runs, if there are fewer than fit, and the width of each. */
  gaps: number[];
  gapWidth: number;
  /** The number of failed runs in the chart. */
  failed: number;
  total: number;
  /** A description of the chart for screen readers. */
  about: string;
}

const most = 30;
/** A chart of fewer runs has gaps for the others, so that bars are neither thick nor alone. */
const fewest = 20;
const [width, height, gap, least] = [240, 48, 2, 4];
/** The space for crosses above bars, and half the width of a cross. */
const [crossSpace, crossArm] = [10, 2.5];

/** Builds the bar chart. `runs` must be sorted newest first. */
export function runBars(runs: readonly RunRecord[], now: Date): RunBars {
  const shown = runs.slice(0, most).reverse();
  const durations = shown.map((run) => durationOf(run, now) ?? 0);
  const tall = scaleLinear([0, Math.max(1, ...durations)], [least, height - crossSpace]);
  const step = width / Math.max(fewest, shown.length);
  // Align to the right, with the newest run at the edge.
  const from = width - shown.length * step;
  const bars = shown.map((run, index) => {
    const size = round(tall(durations[index] ?? 0));
    const [x, y] = [round(from + index * step), round(height - size)];
    const { tone } = statusMark(run);
    return {
      runId: run.run_id,
      ...{ x, y, width: step - gap, height: size, tone },
      cross: tone === 'failure' ? crossAt(x + (step - gap) / 2, y - crossSpace / 2) : null,
      title: [
        statusMark(run).label,
        momentOf(run.accepted_at).text,
        durationText(durations[index] ?? 0),
      ].join(', '),
    };
  });
  const failed = shown.filter(({ status }) => status === 'failed').length;
  const gaps = Array.from({ length: Math.max(0, fewest - shown.length) }, (_, index) => round(index * step));
  const about = aboutOf(shown, failed, now);
  return { width, height, bars, gaps, gapWidth: step - gap, failed, total: shown.length, about };
}

function crossAt(x: number, y: number): string {
  const [left, right, top, bottom] = [x - crossArm, x + crossArm, y - crossArm, y + crossArm].map(round);
  return `M${left} ${top}L${right} ${bottom}M${left} ${bottom}L${right} ${top}`;
}

const fewestForMedian = 5;

/** Describes the runs that have ended. */
function aboutOf(shown: readonly RunRecord[], failed: number, now: Date): string {
  if (shown.length === 0) return 'No runs yet.';
  const ended = shown.filter((run) => run.finished_at !== null);
  if (ended.length === 0) return 'No run has ended yet.';
  const durations = ended.flatMap((run) => durationOf(run, now) ?? []);
  const median = durations.length < fewestForMedian ? '' : `, median ${durationText(medianOf(durations))}`;
  return `${failed} of ${plural(ended.length, 'run')} failed${median}`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
