import type { RunRecord } from '../../../workers/queue/run-record.ts';
import {
  actionMark,
  durationOf,
  durationText,
  type Moment,
  momentOf,
  plural,
  statusMark,
  type Tone,
  triesText,
} from '../record-text.ts';
import { starterOf } from './run-words.ts';

/** The stages of a run and how long each one took. */
export interface RunTimeline {
  steps: {
    label: string;
    tone: Tone;
    /** When the stage began; null if the run has not reached it. */
    at: { iso: string; text: string } | null;
    /** The duration of the stage; null if it is not over yet. */
    lasted: string | null;
    state: 'done' | 'current' | 'ahead';
  }[];
}

export function runTimeline(run: RunRecord, now: Date): RunTimeline {
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

/** A dated event in the history of a run. */
export interface RunEvent {
  at: Moment;
  tone: Tone;
  text: string;
}

/** Returns the history of a run, oldest event first. */
export function runEvents(run: RunRecord, now: Date): RunEvent[] {
  const { token, how } = starterOf(run);
  const took = durationOf(run, now);
  const step = (at: string | null | undefined, tone: Tone, text: string): RunEvent[] =>
    at === null || at === undefined ? [] : [{ at: momentOf(at), tone, text }];
  const retry =
    run.last_error === null
      ? ''
      : `, try ${run.attempt}${run.status === 'queued' ? ' to come' : ''} after: ${run.last_error.message}`;
  const events = [
    ...step(run.accepted_at, 'neutral', `Accepted: ${how}${token === null ? '' : ` by ${token}`}`),
    ...step(run.queued_at, 'waiting', `Queued${run.status === 'queued' ? retry : ''}`),
    ...step(run.started_at, 'running', `Started${retry}`),
    ...run.destinations.flatMap((one) => {
      const { label, tone } = actionMark(one);
      const written = one.outputs_written > 0 ? `, ${plural(one.outputs_written, 'output')} written` : '';
      const text = one.error === null ? `${label}${written}` : one.error.message;
      return step(one.finished_at, tone, `${one.destination_id}: ${text}`);
    }),
    ...step(
      run.finished_at,
      statusMark(run).tone,
      `Run ${statusMark(run).label}${took === null ? '' : ` after ${durationText(took)}`}`,
    ),
    ...run.failed_deliveries.flatMap(({ updated_at: at, event_type: type, notifier_id: id, status, tries }) =>
      step(
        at,
        status === 'delivered' ? 'success' : status === 'retrying' ? 'warning' : 'failure',
        `Event ${type} to ${id}: ${status.replace('_', ' ')}, ${triesText(tries)}`,
      ),
    ),
  ];
  return events.sort((a, b) => Date.parse(a.at.iso) - Date.parse(b.at.iso));
}
