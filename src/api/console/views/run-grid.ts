import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { actionMark, durationOf, durationText, momentOf, statusMark, type Mark } from '../words.ts';

/** Runs beside each other, the newest first: a column for each, and a row for each destination. */
export interface RunGrid {
  columns: { runId: string; status: Mark; title: string }[];
  rows: { destinationId: string; cells: (Mark & { runId: string; title: string })[] }[];
}

const nothing: Mark = { label: 'nothing', tone: 'neutral', symbol: '·' };
const moving: Mark = { label: 'waiting', tone: 'waiting', symbol: '…' };

/** Destinations that a run knew and the configuration does not come last. Pure. */
export function runGrid(runs: readonly RunRecord[], destinationIds: readonly string[], now: Date): RunGrid {
  const known = runs.flatMap(({ destinations }) => destinations.map((one) => one.destination_id));
  const ids = [...new Set([...destinationIds, ...known])];
  return {
    columns: runs.map((run) => ({
      runId: run.run_id,
      status: statusMark(run),
      title: `${momentOf(run.accepted_at).text}: ${statusMark(run).label}${took(run, now)}`,
    })),
    rows: ids.map((destinationId) => ({
      destinationId,
      cells: runs.map((run) => {
        const mark = markOf(run, destinationId);
        return { ...mark, runId: run.run_id, title: `${destinationId}: ${mark.label}` };
      }),
    })),
  };
}

/** The worst of what a run did there, since it may have published several bundles. */
function markOf(run: RunRecord, destinationId: string): Mark {
  const marks = run.destinations.filter((one) => one.destination_id === destinationId).map(actionMark);
  const worst =
    marks.find(({ tone }) => tone === 'failure') ?? marks.find(({ tone }) => tone !== 'neutral') ?? marks[0];
  return worst ?? (run.finished_at === null ? moving : nothing);
}

function took(run: RunRecord, now: Date): string {
  const ms = durationOf(run, now);
  return ms === null ? '' : `, ${durationText(ms)}`;
}
