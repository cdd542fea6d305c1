import type { Revision } from '../../core/bundle/revision.ts';
import { type ErrorRecord, withoutPaths } from '../../core/lib/errors.ts';
import type { Outcome, Postponed } from '../../core/notify/lane.ts';
import type { Action, PlannedChange, Reason } from '../../core/publish/plan.ts';
import type { Counters } from '../../core/publish/results/result.ts';

export const runStatuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** The progress of a run, over all its destinations. */
export interface RunProgress {
  /**
   * `preparing`: bundle and destinations are read. `writing`: outputs are written. `committing`: all outputs
   * planned so far are written, and are being put in place and recorded.
   */
  stage: 'preparing' | 'writing' | 'committing';
  /** Of what is written; what is kept is not counted. */
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
}

/**
 * The body of `GET /runs/{run_id}`, with the names of that JSON. Times are RFC 3339 in UTC. Contains no path
 * of the host and no secret.
 */
export interface RunRecord {
  run_id: string;
  pipeline_id: string;
  /** The run that this one repeats; null if it repeats none. */
  rerun_of: string | null;
  /** The channel that it publishes to; null for what is current, and in place. */
  channel: string | null;
  /** Message, commit, branch and author, as stated by the producer. Older records have none. */
  revision?: Revision | null;
  /** Whether it can be run again: it has ended, and nothing that this takes is gone or was used for it. */
  rerunnable: boolean;
  status: RunStatus;
  triggered_by: TriggeredBy;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  /** The number of the try that runs, ran last, or comes next; 1 is the first. */
  attempt: number;
  /** When the next try is due; null unless the run failed for a passing cause and is queued again. */
  next_try_at: string | null;
  /** Until when the run is tried again; null if no try has failed for a passing cause. */
  retry_until: string | null;
  /** Cause of the last failed try that another one followed or follows; null if there is none. */
  last_error: ErrorRecord | null;
  /** While the run waits for its next try, those of the last one. */
  destinations: RunDestination[];
  /** Null unless the run is running. */
  progress: RunProgress | null;
  summary: Counters | null;
  /** Empty until the run has finished. */
  warnings: RunWarning[];
  error: ErrorRecord | null;
  /** Of the trace that the run belongs to: 32 hexadecimal digits; null if it was accepted without one. */
  trace_id: string | null;
  /**
   * Deliveries of its events of which a try failed, also after its end; at most 20 (`withNote`). Stands
   * beside the number of those that have no room, which a script relies on.
   */
  failed_deliveries: FailedDelivery[];
  failed_deliveries_omitted: number;
}

/** An event of the run that a notifier did not get at once. */
export interface FailedDelivery {
  notifier_id: string;
  event_id: string;
  event_type: string;
  /**
   * `retrying`: it is tried again by itself. `given_up`: it is undelivered, until somebody has it sent again.
   * `delivered`: in the end.
   */
  status: 'retrying' | 'given_up' | 'delivered';
  tries: number;
  /** Why it failed last, without a secret, a path or an address; null if that is not known any more. */
  last_error: string | null;
  /** While `retrying`; null if the time is not set. */
  next_try_at: string | null;
  updated_at: string;
}

/** What made the run. */
export interface TriggeredBy {
  /**
   * `upload`: an uploaded bundle. `request`: somebody who started it. `schedule`: a tick of the schedule.
   * `watch`: a change of the source.
   */
  kind: 'upload' | 'request' | 'schedule' | 'watch';
  /** The tick of the schedule, which may be long ago if it was caught up; null for the other kinds. */
  tick: string | null;
}

export interface RunWarning {
  /** Null if it is about the bundle or the source. */
  destination_id: string | null;
  code: string;
  message: string;
}

export interface RunDestination {
  destination_id: string;
  action: Action | 'error';
  /** Why this action; null if there was none to decide. */
  reason: Reason | null;
  destination_path: string | null;
  /** The release that was published; of a `skip_same` the current one. Null in place, and after a failure. */
  release: string | null;
  /** Where readers find it; null if no setting says, and after a failure. Older records have none. */
  url?: string | null;
  outputs_written: number;
  /** Outputs that a release got from the one before it. */
  outputs_linked: number;
  /** Outputs whose bytes stayed as they were; with those that were written or linked, all of them. */
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
  /** The first paths that do not stay as they were, and why; also of a publication that failed. */
  changes: PlannedChange[];
  /** How many more there are. */
  changes_omitted: number;
  error: ErrorRecord | null;
}

/*
 * The deliveries of a run's events that failed, in its record. A delivery stands there from its first failed
 * try on, also if it succeeds in the end. Pure.
 */

/** What became of a delivery by now. */
export interface DeliveryNote {
  notifierId: string;
  eventId: string;
  eventType: string;
  status: FailedDelivery['status'];
  tries: number;
  /** The tries come on top of those that were noted before. */
  isMore: boolean;
  /** Null if it was delivered. */
  reason: string | null;
  nextTryAt: string | null;
  at: Date;
}

export type FailedDeliveries = Pick<RunRecord, 'failed_deliveries' | 'failed_deliveries_omitted'>;

export const noFailedDeliveries: FailedDeliveries = { failed_deliveries: [], failed_deliveries_omitted: 0 };

/** So many stand in a record: a dead receiver makes one of each event, and a run may have many. */
export const maxFailedDeliveries = 20;
const longestReason = 300;

/**
 * With the note; null if it changes nothing: what was delivered at once. Where there are too many, those that
 * were delivered after all make room first; of what has no room the number is counted, and its later fate is
 * not known.
 */
export function withNote(before: FailedDeliveries, note: DeliveryNote): FailedDeliveries | null {
  const list = before.failed_deliveries;
  const { notifierId, eventId } = note;
  const index = list.findIndex((one) => one.notifier_id === notifierId && one.event_id === eventId);
  const known = list[index];
  if (known !== undefined) return { ...before, failed_deliveries: list.with(index, noted(note, known)) };
  if (note.status === 'delivered') return null;
  // Of a delivery without room this is not the first failure, but the end of it.
  const isCounted = note.isMore || note.tries > 1;
  const room = list.length < maxFailedDeliveries ? list : withoutOneDelivered(list);
  if (room !== null) return { ...before, failed_deliveries: [...room, noted(note, null)] };
  return isCounted ? null : { ...before, failed_deliveries_omitted: before.failed_deliveries_omitted + 1 };
}

function withoutOneDelivered(list: readonly FailedDelivery[]): FailedDelivery[] | null {
  const index = list.findIndex(({ status }) => status === 'delivered');
  return index === -1 ? null : list.toSpliced(index, 1);
}

function noted(note: DeliveryNote, before: FailedDelivery | null): FailedDelivery {
  const { notifierId, eventId, eventType, status, tries, isMore, reason, nextTryAt, at } = note;
  return {
    notifier_id: notifierId,
    event_id: eventId,
    event_type: eventType,
    status,
    tries: isMore ? tries + (before?.tries ?? 0) : Math.max(tries, before?.tries ?? 0),
    last_error: reason === null ? (before?.last_error ?? null) : publicReason(reason),
    next_try_at: nextTryAt,
    updated_at: at.toISOString(),
  };
}

// Records are read without a token, and where internal services listen is nobody's business.
const origin = /\b[a-z][a-z0-9+.-]*:\/\/[^\s,;)]+/gi;

function publicReason(reason: string): string {
  return withoutPaths(reason.replaceAll(origin, 'the receiver')).slice(0, longestReason);
}

/** The run in which the event happened, and what to note of it; null if it happened in none. */
export function noteOfOutcome(outcome: Outcome, at: Date): { runId: string; note: DeliveryNote } | null {
  const { delivered, tries, reason, isAgain } = outcome;
  const status = delivered ? 'delivered' : 'given_up';
  return noteOf(outcome, { status, tries, isMore: isAgain, reason, nextTryAt: null, at });
}

export function noteOfPostponed(
  postponed: Postponed,
  at: Date,
): { runId: string; note: DeliveryNote } | null {
  const { tries, reason, nextTryAt } = postponed;
  return noteOf(postponed, { status: 'retrying', tries, isMore: false, reason, nextTryAt, at });
}

function noteOf(
  { event, notifierId }: Pick<Outcome, 'event' | 'notifierId'>,
  rest: Omit<DeliveryNote, 'notifierId' | 'eventId' | 'eventType'>,
): { runId: string; note: DeliveryNote } | null {
  const { id: eventId, type: eventType, data } = event;
  if (!('run_id' in data) || data.run_id === null) return null;
  return { runId: data.run_id, note: { notifierId, eventId, eventType, ...rest } };
}

/** What a record says of its tries before the first has failed. */
export const firstTry = { attempt: 1, next_try_at: null, retry_until: null, last_error: null };

/** A record as it stands in Redis, written by waybill alone. */
export function recordOf(text: string): RunRecord {
  return withLaterFields(JSON.parse(text) as EarlierRecord);
}

type LaterField =
  | 'rerun_of'
  | 'channel'
  | 'rerunnable'
  | 'triggered_by'
  | 'trace_id'
  | keyof typeof firstTry
  | 'failed_deliveries'
  | 'failed_deliveries_omitted';

type LaterOfDestination = 'reason' | 'changes' | 'changes_omitted';
type EarlierDestination = Omit<RunDestination, LaterOfDestination> &
  Partial<Pick<RunDestination, LaterOfDestination>>;

/** As earlier versions wrote it, without the fields that came later. */
export type EarlierRecord = Omit<RunRecord, LaterField | 'destinations'> &
  Partial<Pick<RunRecord, LaterField>> & { destinations: EarlierDestination[] };

export function withLaterFields(record: EarlierRecord): RunRecord {
  const triggeredBy = { kind: 'request' as const, tick: null };
  return {
    ...{ rerun_of: null, channel: null, rerunnable: false, triggered_by: triggeredBy, trace_id: null },
    ...firstTry,
    ...noFailedDeliveries,
    ...record,
    destinations: record.destinations.map((one) => ({ ...noChanges, ...one })),
  };
}

const noChanges = { reason: null, changes: [], changes_omitted: 0 };
