import type { Revision } from '../../../core/bundle/revision.ts';
import { describeFinding, type ErrorRecord } from '../../../core/lib/errors.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
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
  type Tone,
  triesText,
} from '../record-text.ts';

interface RunView {
  id: string;
  /** Source and destinations, for example `docs → website`. */
  title: string;
  status: Mark;
  isOver: boolean;
  trigger: string;
  channel: string | null;
  revision: Revision | null;
  /** The trusted publisher; null if there is none. */
  publishedBy: PublishedBy | null;
  rerunOf: string | null;
  traceId: string | null;
  accepted: Moment;
  finished: Moment | null;
  duration: string | null;
  waited: string | null;
  timeline: RunTimeline;
  progress: { stage: string; done: number; total: number; text: string } | null;
  /** null unless the run waits for its next try. */
  retry: { attempt: number; next: Moment; until: Moment | null; cause: ErrorView } | null;
  error: ErrorView | null;
  destinations: DestinationRow[];
  warnings: RunWarning[];
  deliveries: (Omit<FailedDelivery, 'tries'> & { updated: Moment; tries: string })[];
  deliveriesOmitted: number;
}

export interface ErrorView extends Pick<ErrorRecord, 'code' | 'message' | 'hint' | 'retryable'> {
  findings: string[];
}

interface DestinationRow {
  id: string;
  mark: Mark;
  reason: string | null;
  path: string | null;
  release: string | null;
  counts: string;
  changes: { path: string; fate: string; why: string }[];
  changesOmitted: number;
  error: ErrorView | null;
}

const stages = {
  preparing: 'looking at bundle and destinations',
  writing: 'writing',
  committing: 'putting in place',
};
const triggers = {
  upload: 'an upload',
  request: 'a request',
  schedule: 'the schedule',
  watch: 'a change of the source',
};

/**
 * The view of a run. It has a row for each configured destination from the start, so that the layout is
 * stable. Pure.
 */
export function runView(run: RunRecord, destinationIds: readonly string[], now: Date): RunView {
  const duration = durationOf(run, now);
  const begun = run.started_at ?? run.finished_at;
  return {
    id: run.run_id,
    title: titleOf(run, destinationIds),
    status: statusMark(run),
    isOver: run.finished_at !== null,
    trigger: triggers[run.triggered_by.kind],
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
    progress: progressOf(run),
    retry: retryOf(run),
    error: run.error === null ? null : errorView(run.error),
    destinations: rowsOf(run, destinationIds),
    warnings: run.warnings,
    deliveries: run.failed_deliveries.map((one) => ({
      ...one,
      updated: momentOf(one.updated_at),
      tries: triesText(one.tries),
    })),
    deliveriesOmitted: run.failed_deliveries_omitted,
  };
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
  return { code, message, hint, retryable, findings: findings.map(describeFinding) };
}

function progressOf({ progress }: RunRecord): RunView['progress'] {
  if (progress === null) return null;
  const { stage, outputs_done, outputs_total, bytes_done, bytes_total } = progress;
  return {
    stage: stages[stage],
    // If every output is empty, progress counts outputs instead of bytes.
    done: bytes_total === 0 ? outputs_done : Math.min(bytes_done, bytes_total),
    total: Math.max(1, bytes_total === 0 ? outputs_total : bytes_total),
    text: `${outputs_done} of ${plural(outputs_total, 'output')}, ${sizeText(bytes_done)} of ${sizeText(bytes_total)}`,
  };
}

function rowsOf(run: RunRecord, destinationIds: readonly string[]): DestinationRow[] {
  const rows = run.destinations.map(rowOf);
  const seen = new Set(rows.map(({ id }) => id));
  const isOver = run.finished_at !== null;
  const mark: Mark = isOver
    ? { label: 'not reached', tone: 'neutral', symbol: '·' }
    : { label: run.status === 'running' ? 'working' : 'waiting', tone: 'waiting', symbol: '…' };
  const others = destinationIds.filter((id) => !seen.has(id)).map((id) => ({ ...emptyRow, id, mark }));
  return [...rows, ...others];
}

const emptyRow: Omit<DestinationRow, 'id' | 'mark'> = {
  ...{ reason: null, path: null, release: null, counts: '', changes: [], changesOmitted: 0, error: null },
};

function rowOf(one: RunDestination): DestinationRow {
  return {
    id: one.destination_id,
    mark: actionMark(one),
    reason: one.reason?.message ?? null,
    path: one.destination_path,
    release: one.release,
    counts: countsOf(one),
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

/** The stages of a run, with the duration of each. */
interface RunTimeline {
  steps: {
    label: string;
    tone: Tone;
    /** null for a later stage. */
    at: { iso: string; text: string } | null;
    /** The duration of the stage; null for the current and later stages. */
    lasted: string | null;
    state: 'done' | 'current' | 'ahead';
  }[];
}

/** Pure. */
function runTimeline(run: RunRecord, now: Date): RunTimeline {
  const isOver = run.finished_at !== null;
  const end = run.finished_at;
  const last = { label: isOver ? run.status : 'done', tone: toneOf(run), at: end };
  const marks: { label: string; tone: Tone; at: string | null }[] = [
    { label: 'accepted', tone: 'waiting', at: run.accepted_at },
    { label: 'queued', tone: 'waiting', at: run.queued_at },
    { label: 'running', tone: 'running', at: run.started_at },
    last,
  ];
  return {
    steps: marks.map(({ label, tone, at }, index) => {
      const next = marks.slice(index + 1).find((one) => one.at !== null)?.at ?? null;
      const isCurrent = at !== null && next === null;
      const until = next === null ? now.getTime() : Date.parse(next);
      return {
        label,
        tone,
        at: at === null ? null : { iso: at, text: momentOf(at).text.slice(-12) },
        lasted: at === null || index === 3 ? null : durationText(until - Date.parse(at)),
        state: at === null ? 'ahead' : isCurrent ? 'current' : 'done',
      };
    }),
  };
}

function toneOf({ status, error }: RunRecord): Tone {
  if (error?.code === 'cancelled') return 'warning';
  return status === 'succeeded' ? 'success' : status === 'failed' ? 'failure' : 'neutral';
}
