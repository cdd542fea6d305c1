import type { RunDestination, RunRecord } from '../../../workers/queue/run-record.ts';
import {
  durationOf,
  durationText,
  isVisible,
  type Mark,
  type Moment,
  momentOf,
  outcomeMark,
  plural,
  shortMoment,
  sizeText,
  statusMark,
} from '../record-text.ts';
import { type TimeBar, timeBar } from './run-timeline.ts';
import { type ChangeLine, changeLine, reasonText } from './run-words.ts';

/* The results and the changes of a run at its destinations, and the results of many runs. */

export interface DestinationRow {
  id: string;
  mark: Mark;
  reason: string | null;
  path: string | null;
  release: string | null;
  counts: string;
  /** Counts files or bytes while the destination is being written; null before and after. */
  progress: { done: number; total: number } | null;
  /** null if the run has not started, or did not reach the destination. */
  bar: TimeBar | null;
  isFailed: boolean;
}

/** Changes, with the destinations that got the same ones. */
export interface ChangeGroup {
  names: string;
  /** The files that differ for readers. */
  lines: ChangeLine[];
  /** Counts the other files, whose records changed; null if there are none. */
  same: string | null;
  omitted: number;
}

type Counts = Pick<
  NonNullable<RunRecord['progress']>,
  'outputs_done' | 'outputs_total' | 'bytes_done' | 'bytes_total'
>;

/** Measures progress in bytes, or in files if all of them are empty. */
export function partOf({ outputs_done, outputs_total, bytes_done, bytes_total }: Counts): {
  done: number;
  total: number;
} {
  if (bytes_total === 0) return { done: outputs_done, total: Math.max(1, outputs_total) };
  return { done: Math.min(bytes_done, bytes_total), total: bytes_total };
}

export function rowsOf(run: RunRecord, destinationIds: readonly string[], now: Date): DestinationRow[] {
  const ends = new Map<string, string | null>();
  const rows = run.destinations.map((one) => {
    const end = one.finished_at ?? null;
    const bar = timeBar(run, { end, before: ends.get(one.destination_id) ?? null, now });
    ends.set(one.destination_id, end);
    return rowOf(one, bar);
  });
  const others = destinationIds.filter((id) => !ends.has(id)).map((id) => unfinishedRow(run, id, now));
  return [...rows, ...others];
}

/** Returns the row of a destination that has no result yet. */
function unfinishedRow(run: RunRecord, id: string, now: Date): DestinationRow {
  if (run.finished_at !== null)
    return { ...emptyRow, id, mark: { label: 'not reached', tone: 'neutral', symbol: '·' } };
  const bar = timeBar(run, { end: null, before: null, now });
  const counts = run.progress?.destinations?.find((one) => one.destination_id === id);
  if (counts === undefined) {
    const label = run.status === 'running' ? 'preparing' : 'waiting';
    return { ...emptyRow, id, bar, mark: { label, tone: 'waiting', symbol: '…' } };
  }
  const isWritten = counts.outputs_done >= counts.outputs_total;
  return {
    ...{ ...emptyRow, id, bar, progress: partOf(counts) },
    mark: { label: isWritten ? 'committing' : 'writing', tone: 'running', symbol: '▸' },
    counts: `${counts.outputs_done} of ${plural(counts.outputs_total, 'file')}, ${sizeText(counts.bytes_done)} of ${sizeText(counts.bytes_total)}`,
  };
}

const emptyRow: Omit<DestinationRow, 'id' | 'mark'> = {
  ...{ reason: null, path: null, release: null, counts: '', isFailed: false, progress: null, bar: null },
};

function rowOf(one: RunDestination, bar: TimeBar | null): DestinationRow {
  return {
    id: one.destination_id,
    mark: outcomeMark(one),
    reason: reasonText(one),
    path: one.destination_path,
    release: one.release,
    counts: countsOf(one),
    progress: null,
    bar,
    isFailed: one.error !== null,
  };
}

/** Leaves out destinations with only the same files, because their reason says so. */
export function changesOf({ destinations }: RunRecord): ChangeGroup[] {
  const groups = new Map<string, Omit<ChangeGroup, 'names'> & { names: string[] }>();
  const changed = destinations.filter(({ changes }) => changes.length > 0);
  const bundles = new Set(changed.map(({ destination_path: path }) => path).filter((path) => path !== '.'));
  for (const { destination_id: id, destination_path: path, changes, changes_omitted: omitted } of changed) {
    const key = JSON.stringify([bundles.size > 1 ? path : null, changes, omitted]);
    const lines = changes.filter(isVisible).map(changeLine);
    if (lines.length + omitted === 0) continue;
    const others = changes.length - lines.length;
    const same = others === 0 ? null : `${plural(others, 'file')} unchanged`;
    const group = groups.get(key) ?? { names: [], lines, same, omitted };
    group.names.push(bundles.size > 1 && path !== null && path !== '.' ? `${id} (${path})` : id);
    groups.set(key, group);
  }
  return [...groups.values()].map((group) => ({ ...group, names: group.names.join(', ') }));
}

function countsOf(one: RunDestination): string {
  const parts: [number, string][] = [
    [one.outputs_written, `written (${sizeText(one.bytes_written)})`],
    [one.outputs_linked + one.outputs_kept, 'unchanged'],
    [one.outputs_removed, 'removed'],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}

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
