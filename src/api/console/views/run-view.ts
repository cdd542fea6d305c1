import type { Revision } from '../../../core/bundle/source-bundle.ts';
import { describeFinding, type ErrorRecord } from '../../../core/lib/errors.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
import type { RunLine } from '../../../workers/coordinator/run-lines.ts';
import type {
  FailedDelivery,
  RunDestination,
  RunRecord,
  RunWarning,
} from '../../../workers/queue/run-record.ts';
import {
  actionMark,
  durationOf,
  durationText,
  type Mark,
  type Moment,
  momentOf,
  momentOrNull,
  plural,
  sizeText,
  statusMark,
  triesText,
} from '../record-text.ts';
import {
  type RunEvent,
  runEvents,
  type RunTimeline,
  runTimeline,
  type TimeBar,
  timeBar,
} from './run-timeline.ts';
import { bundleOf, forceCommand, rerunHelps, sentence, type Starter, starterOf } from './run-words.ts';

interface RunView {
  id: string;
  /** The source and destinations, such as `docs → website`. */
  title: string;
  status: Mark;
  isOver: boolean;
  bundle: string | null;
  starter: Starter;
  channel: string | null;
  revision: Revision | null;
  /** The trusted publisher that uploaded the bundle; null if it was uploaded with an ordinary token. */
  publishedBy: PublishedBy | null;
  rerunOf: string | null;
  traceId: string | null;
  accepted: Moment;
  finished: Moment | null;
  duration: string | null;
  waited: string | null;
  timeline: RunTimeline;
  progress: RunProgressView | null;
  /** The outputs at all destinations, for a finished run. */
  total: string | null;
  history: RunEvent[];
  /** Whether repeating the failed run without changes could succeed. */
  rerunHelps: boolean;
  /** null unless the run is waiting to be retried. */
  retry: { attempt: number; next: Moment; until: Moment | null; cause: ErrorView } | null;
  /** The errors of the run and its destinations. */
  errors: (ErrorView & { destinationId: string | null })[];
  destinations: DestinationRow[];
  warnings: RunWarning[];
  deliveries: (Omit<FailedDelivery, 'tries'> & { updated: Moment; tries: string })[];
  deliveriesOmitted: number;
}

interface RunProgressView {
  stage: string;
  done: number;
  total: number;
  text: string;
  /**
   * The speed and the remaining time, such as `1.2 MiB/s, about 4 s left`. null until something has been
   * written.
   */
  pace: string | null;
}

export interface ErrorView extends Pick<ErrorRecord, 'code' | 'message' | 'hint' | 'retryable'> {
  /** A command for the next step, to copy; null if there is none. */
  command: string | null;
  findings: string[];
}

interface DestinationRow {
  id: string;
  mark: Mark;
  reason: string | null;
  path: string | null;
  release: string | null;
  counts: string;
  /** Counts outputs or bytes while the destination is being written; null before and after. */
  progress: { done: number; total: number } | null;
  /** null if the run has not started, or did not reach the destination. */
  bar: TimeBar | null;
  changes: { path: string; fate: string; why: string }[];
  changesOmitted: number;
  error: ErrorView | null;
}

const stages = { preparing: 'Preparing', writing: 'Writing', committing: 'Committing' };

/**
 * Builds the view of a run. Every configured destination gets a row right away, so the page does not jump
 * when results come in.
 */
export function runView(
  run: RunRecord,
  destinationIds: readonly string[],
  now: Date,
  lines: readonly RunLine[] = [],
): RunView {
  const duration = durationOf(run, now);
  const begun = run.started_at ?? run.finished_at;
  return {
    id: run.run_id,
    title: titleOf(run, destinationIds),
    status: statusMark(run),
    isOver: run.finished_at !== null,
    bundle: bundleOf(run),
    starter: starterOf(run),
    channel: run.channel,
    revision: run.revision ?? null,
    publishedBy: run.published_by ?? null,
    rerunOf: run.rerun_of,
    traceId: run.trace_id,
    accepted: momentOf(run.accepted_at),
    finished: momentOrNull(run.finished_at),
    duration: duration === null ? null : durationText(duration),
    waited: begun === null ? null : durationText(Date.parse(begun) - Date.parse(run.accepted_at)),
    timeline: runTimeline(run, now),
    progress: progressOf(run, now),
    total: run.finished_at === null ? null : totalOf(run),
    history: runEvents(run, now, lines),
    rerunHelps: rerunHelps(run),
    retry: retryOf(run),
    errors: errorsIn(run),
    destinations: rowsOf(run, destinationIds, now),
    warnings: warningsOf(run),
    deliveries: run.failed_deliveries.map((one) => ({
      ...one,
      updated: momentOf(one.updated_at),
      tries: triesText(one.tries),
    })),
    deliveriesOmitted: run.failed_deliveries_omitted,
  };
}

/**
 * Returns the warnings without the selection of the bundle that was uploaded, because an upload has only one.
 * The page shows paths in words, so it leaves out `target=.`.
 */
function warningsOf({ warnings, triggered_by: by }: RunRecord): RunWarning[] {
  return warnings
    .filter(({ code }) => by.kind !== 'upload' || code !== 'fixed_bundle_selected')
    .map((one) => ({ ...one, message: sentence(one.message.replace(/^(?:[^"]*: )?target=\.: /, '')) }));
}

function titleOf({ pipeline_id: pipeline, channel }: RunRecord, destinationIds: readonly string[]): string {
  if (channel !== null) return `${pipeline} → channel ${channel}`;
  return `${pipeline} → ${destinationIds.length > 3 ? `${destinationIds.length} destinations` : destinationIds.join(', ')}`;
}

function retryOf({
  attempt,
  next_try_at: next,
  retry_until: until,
  last_error: error,
}: RunRecord): RunView['retry'] {
  if (next === null || error === null) return null;
  return { attempt, next: momentOf(next), until: momentOrNull(until), cause: errorView(error) };
}

export function errorView({ code, message, hint, retryable, findings }: ErrorRecord): ErrorView {
  return {
    code,
    message: sentence(message),
    hint: typeof hint === 'string' ? sentence(hint) : null,
    command: null,
    retryable,
    findings: findings.map(describeFinding),
  };
}

function errorsIn(run: RunRecord): RunView['errors'] {
  const { error, destinations } = run;
  const own = error === null ? [] : [{ ...errorView(error), destinationId: null }];
  const others = destinations.flatMap(({ destination_id: destinationId, error: one }) =>
    one === null
      ? []
      : [{ ...errorView(one), destinationId, command: forceCommand(run, destinationId, one.hint) }],
  );
  return [...own, ...others];
}

function progressOf({ progress, started_at: start }: RunRecord, now: Date): RunProgressView | null {
  if (progress === null) return null;
  const { stage, outputs_done, outputs_total, bytes_done, bytes_total } = progress;
  return {
    stage: stages[stage],
    ...partOf(progress),
    text: `${outputs_done} of ${plural(outputs_total, 'output')}, ${sizeText(bytes_done)} of ${sizeText(bytes_total)}`,
    pace: start === null ? null : paceText(bytes_done, bytes_total, now.getTime() - Date.parse(start)),
  };
}

function totalOf({ destinations }: RunRecord): string | null {
  const sum = (key: 'outputs_written' | 'outputs_linked' | 'outputs_kept' | 'outputs_removed'): number =>
    destinations.reduce((total, one) => total + one[key], 0);
  const bytes = destinations.reduce((total, one) => total + one.bytes_written, 0);
  const parts: [number, string][] = [
    [sum('outputs_written'), `written (${sizeText(bytes)})`],
    [sum('outputs_linked') + sum('outputs_kept'), 'unchanged'],
    [sum('outputs_removed'), 'removed'],
  ];
  const known = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  return known.length === 0 ? null : `Outputs: ${known.join(', ')}`;
}

type Counts = Pick<
  NonNullable<RunRecord['progress']>,
  'outputs_done' | 'outputs_total' | 'bytes_done' | 'bytes_total'
>;

/** Measures progress in bytes, or in outputs if all of them are empty. */
function partOf({ outputs_done, outputs_total, bytes_done, bytes_total }: Counts): {
  done: number;
  total: number;
} {
  if (bytes_total === 0) return { done: outputs_done, total: Math.max(1, outputs_total) };
  return { done: Math.min(bytes_done, bytes_total), total: bytes_total };
}

/** Formats the average speed since the start, and the time remaining at that speed. */
function paceText(done: number, total: number, ms: number): string | null {
  if (done === 0 || ms <= 0) return null;
  const rate = (done / ms) * 1000;
  const left = Math.max(0, total - done);
  const time = left === 0 ? '' : `, about ${durationText(1000 * Math.max(1, Math.ceil(left / rate)))} left`;
  return `${sizeText(Math.round(rate))}/s${time}`;
}

function rowsOf(run: RunRecord, destinationIds: readonly string[], now: Date): DestinationRow[] {
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
    counts: `${counts.outputs_done} of ${plural(counts.outputs_total, 'output')}, ${sizeText(counts.bytes_done)} of ${sizeText(counts.bytes_total)}`,
  };
}

const emptyRow: Omit<DestinationRow, 'id' | 'mark'> = {
  ...{ reason: null, path: null, release: null, counts: '', changes: [], changesOmitted: 0, error: null },
  ...{ progress: null, bar: null },
};

function rowOf(one: RunDestination, bar: TimeBar | null): DestinationRow {
  return {
    id: one.destination_id,
    mark: actionMark(one),
    reason: one.reason?.message ?? null,
    path: one.destination_path,
    release: one.release,
    counts: countsOf(one),
    progress: null,
    bar,
    changes: one.changes,
    changesOmitted: one.changes_omitted,
    error: one.error === null ? null : errorView(one.error),
  };
}

function countsOf(one: RunDestination): string {
  const parts: [number, string][] = [
    [one.outputs_written, `written (${sizeText(one.bytes_written)})`],
    [one.outputs_linked, 'linked'],
    [one.outputs_kept, 'kept'],
    [one.outputs_removed, 'removed'],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}
