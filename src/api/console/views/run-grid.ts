import type { RunRecord } from '../../../workers/queue/run-record.ts';
import {
  durationOf,
  durationText,
  type Mark,
  type Moment,
  momentOf,
  outcomeMark,
  shortMoment,
  statusMark,
} from '../record-text.ts';

/** A grid of results with one column per run, newest first, and one row per destination. */
export interface RunGrid {
  columns: { runId: string; status: Mark; title: string }[];
  rows: { destinationId: string; cells: (Mark & { runId: string; title: string })[] }[];
  /** The times of the newest and of the oldest run. */
  times: Moment[];
  /** The signs in the grid, in the order in which they occur. */
  legend: Mark[];
}

const nothing: Mark = { label: 'nothing', tone: 'neutral', symbol: '·' };
const moving: Mark = { label: 'waiting', tone: 'waiting', symbol: '…' };

/** Builds the grid. Destinations that have been removed from the configuration come last. */
export function runGrid(runs: readonly RunRecord[], destinationIds: readonly string[], now: Date): RunGrid {
  const known = runs.flatMap(({ destinations }) => destinations.map((one) => one.destination_id));
  const ids = [...new Set([...destinationIds, ...known])];
  const columns = runs.map((run) => ({
    runId: run.run_id,
    status: statusMark(run),
    title: `${momentOf(run.accepted_at).text}: ${statusMark(run).label}${took(run, now)}`,
  }));
  const rows = ids.map((destinationId) => ({
    destinationId,
    cells: runs.map((run) => {
      const mark = markOf(run, destinationId);
      return { ...mark, runId: run.run_id, title: `${destinationId}: ${mark.label}` };
    }),
  }));
  const marks = [...columns.map(({ status }) => status), ...rows.flatMap(({ cells }) => cells)];
  return {
    ...{ columns, rows },
    times: [runs[0], runs.at(-1)].flatMap((run) =>
      run === undefined ? [] : [{ iso: run.accepted_at, text: shortMoment(run.accepted_at) }],
    ),
    legend: [...new Map(marks.map(({ label, tone, symbol }) => [label, { label, tone, symbol }])).values()],
  };
}

/**
 * Returns a run's worst result at a destination. There can be several, since a run may publish several
 * bundles.
 */
function markOf(run: RunRecord, destinationId: string): Mark {
  const marks = run.destinations.filter((one) => one.destination_id === destinationId).map(outcomeMark);
  const worst =
    marks.find(({ tone }) => tone === 'failure') ?? marks.find(({ tone }) => tone !== 'neutral') ?? marks[0];
  return worst ?? (run.finished_at === null ? moving : nothing);
}

function took(run: RunRecord, now: Date): string {
  const ms = durationOf(run, now);
  return ms === null ? '' : `, ${durationText(ms)}`;
}
