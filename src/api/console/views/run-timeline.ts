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
import { failureTitle, plainWords } from './error-view.ts';
import { deliveryText, starterOf } from './run-words.ts';

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

function step(at: string | null | undefined, tone: Tone, text: string): UndatedEvent[] {
  return at === null || at === undefined ? [] : [{ at: momentOf(at), tone, text, isLogLine: false }];
}

/** Steps that follow each other faster are one event. */
const minStepMs = 1000;

/** Returns the steps of a run until it started. */
function firstEvents(run: RunRecord): UndatedEvent[] {
  const { accepted_at: accepted, queued_at: queued, started_at: started, last_error: error } = run;
  const { token, how } = starterOf(run);
  const by = `${how}${token === null ? '' : ` by ${token}`}`;
  const retry =
    error === null
      ? ''
      : `, try ${run.attempt}${run.status === 'queued' ? ' to come' : ''} after: ${plainWords(error.message)}`;
  const isApart = (at: string | null): boolean =>
    at !== null && (retry !== '' || Date.parse(at) - Date.parse(accepted) >= minStepMs);
  if (started !== null && !isApart(started)) return step(accepted, 'running', `Accepted and started: ${by}`);
  return [
    ...step(accepted, 'neutral', `Accepted: ${by}`),
    ...(isApart(queued) ? step(queued, 'waiting', `Waiting${run.status === 'queued' ? retry : ''}`) : []),
    ...step(started, 'running', `Started${retry}`),
  ];
}

function undatedEvents(run: RunRecord, now: Date, lines: readonly RunLogLine[]): UndatedEvent[] {
  const took = durationOf(run, now);
  return [
    ...firstEvents(run),
    ...run.destinations.flatMap((one) => {
      const { label, tone } = outcomeMark(one);
      const written = one.outputs_written > 0 ? `, ${plural(one.outputs_written, 'file')} written` : '';
      const text = one.error === null ? `${label}${written}` : failureTitle(one.error);
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
