import type { RunLogLine } from '../../../workers/coordinator/run-logs.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import {
  durationOf,
  durationText,
  type Moment,
  momentOf,
  outcomeMark,
  plural,
  statusMark,
  type Tone,
} from '../record-text.ts';
import { failureLine, plainWords, sentence } from './error-view.ts';
import { deliveryText, starterOf } from './run-words.ts';

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
    { label: 'running', tone: 'running', at: run.started_at },
    last,
  ];
  return {
    steps: marks.map(({ label, tone, at }, index) => {
      const next = marks.slice(index + 1).find((one) => one.at !== null)?.at ?? null;
      const isCurrent = at !== null && next === null;
      const until = next === null ? now.getTime() : Date.parse(next);
      return {
        label: sentence(label),
        tone,
        at: at === null ? null : { iso: at, text: momentOf(at).text.slice(-12) },
        lasted: at === null || index === 2 ? null : lastedText(label, until - Date.parse(at), isCurrent),
        state: at === null ? 'ahead' : isCurrent ? 'current' : 'done',
      };
    }),
  };
}

function lastedText(label: string, ms: number, isCurrent: boolean): string {
  const text = durationText(ms);
  if (label === 'accepted') return isCurrent ? `waits for ${text}` : `waited ${text}`;
  return isCurrent ? `${text} so far` : `took ${text}`;
}

function toneOf({ status, error }: RunRecord): Tone {
  if (error?.code === 'cancelled') return 'warning';
  return status === 'succeeded' ? 'success' : status === 'failed' ? 'failure' : 'neutral';
}

/** A bar on the time axis that a run's destinations share, in percent of the run's duration. */
export interface TimeBar {
  x: number;
  width: number;
  /** The time that the destination took, or has taken so far. */
  took: string;
  isOver: boolean;
}

/** Keeps a short publication visible. */
const minBarWidth = 1.5;

/**
 * Returns the bar of a destination that is done at `end`, or is being published if `end` is null.
 * Destinations are published concurrently, and the bundles of one destination in sequence. `before` is the
 * end of the previous bundle there. Returns null if the run has not started.
 */
export function timeBar(
  { started_at: start, finished_at: over }: Pick<RunRecord, 'started_at' | 'finished_at'>,
  { end, before, now }: { end: string | null; before: string | null; now: Date },
): TimeBar | null {
  if (start === null) return null;
  const origin = Date.parse(start);
  const last = over === null ? now.getTime() : Date.parse(over);
  const from = Date.parse(before ?? start);
  const to = end === null ? last : Date.parse(end);
  const percent = (at: number): number => (100 * (at - origin)) / Math.max(1, last - origin);
  const x = Math.min(100 - minBarWidth, Math.max(0, percent(from)));
  const width = Math.min(100 - x, Math.max(minBarWidth, percent(to) - x));
  return {
    ...{ x: Math.round(10 * x) / 10, width: Math.round(10 * width) / 10 },
    took: durationText(to - from),
    isOver: end !== null || over !== null,
  };
}

/** A dated step of a run, from its record or from the log. */
export interface RunEvent {
  at: Moment;
  /** The time of day of the first event. For the others, the time since then, such as `+69 ms`. */
  time: string;
  tone: Tone;
  text: string;
  isLogLine: boolean;
}

const lineTones: Readonly<Record<RunLogLine['level'], Tone>> = {
  ...{ info: 'neutral', warn: 'warning', error: 'failure' },
};

/** Returns a run's dated steps and log lines, oldest first. */
export function runEvents(run: RunRecord, now: Date, lines: readonly RunLogLine[]): RunEvent[] {
  const start = Date.parse(run.accepted_at);
  return undatedEvents(run, now, lines)
    .sort((a, b) => orderOf(a) - orderOf(b))
    .map((event, index) => ({
      ...event,
      time: index === 0 ? event.at.text.slice(-12, -4) : `+${durationText(Date.parse(event.at.iso) - start)}`,
    }));
}

interface UndatedEvent extends Omit<RunEvent, 'time'> {
  /** The time of the step that caused this one. It can be a little later than this one, but comes first. */
  after?: string | null;
}

function orderOf({ at, after = null }: UndatedEvent): number {
  return Math.max(Date.parse(at.iso), after === null ? 0 : Date.parse(after));
}

/** Returns the time of the step that a failed notification is about; null if it is not known. */
function causeOf(run: RunRecord, eventType: string): string | null {
  if (eventType !== 'bundle.publish_failed') return null;
  return run.destinations.find((one) => one.error !== null)?.finished_at ?? run.finished_at;
}

function undatedEvents(run: RunRecord, now: Date, lines: readonly RunLogLine[]): UndatedEvent[] {
  const { token, how } = starterOf(run);
  const took = durationOf(run, now);
  const step = (at: string | null | undefined, tone: Tone, text: string): UndatedEvent[] =>
    at === null || at === undefined ? [] : [{ at: momentOf(at), tone, text, isLogLine: false }];
  const retry =
    run.last_error === null
      ? ''
      : `, try ${run.attempt}${run.status === 'queued' ? ' to come' : ''} after: ${plainWords(run.last_error.message)}`;
  return [
    ...step(run.accepted_at, 'neutral', `Accepted: ${how}${token === null ? '' : ` by ${token}`}`),
    ...step(run.queued_at, 'waiting', `Waiting${run.status === 'queued' ? retry : ''}`),
    ...step(run.started_at, 'running', `Started${retry}`),
    ...run.destinations.flatMap((one) => {
      const { label, tone } = outcomeMark(one);
      const written = one.outputs_written > 0 ? `, ${plural(one.outputs_written, 'file')} written` : '';
      const text = one.error === null ? `${label}${written}` : failureLine(one.error);
      return step(one.finished_at, tone, `${one.destination_id}: ${text}`);
    }),
    ...step(
      run.finished_at,
      statusMark(run).tone,
      `Run ${statusMark(run).label}${took === null ? '' : ` after ${durationText(took)}`}`,
    ),
    ...run.failed_deliveries.flatMap((one) => {
      const { word, tone } = deliveryText(one);
      const text = `Notification to ${one.notifier_id}: ${word}`;
      return step(one.updated_at, tone, text).map((event) => ({
        ...event,
        after: causeOf(run, one.event_type),
      }));
    }),
    ...lines.map(({ at, level, message, destinationId }) => ({
      ...{ at: momentOf(at), tone: lineTones[level], isLogLine: true },
      text: destinationId === null ? message : `${destinationId}: ${message}`,
    })),
  ];
}
