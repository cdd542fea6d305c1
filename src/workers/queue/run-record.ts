import type { Revision } from '../../core/bundle/source-bundle.ts';
import { type ErrorRecord, withoutPaths } from '../../core/lib/errors.ts';
import type { Outcome, Postponed } from '../../core/notify/delivery-queue.ts';
import type { Action, PlannedChange, Reason } from '../../core/publish/plan.ts';
import type { Counters } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';

export const runStatuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** A run's progress over all its destinations. */
export interface RunProgress {
  /**
   * `preparing`: reading the bundle and destinations. `writing`: writing outputs. `committing`: all outputs
   * planned so far are written, and are being committed.
   */
  stage: 'preparing' | 'writing' | 'committing';
  /** Outputs written. Unchanged outputs do not count. */
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
  /** The same counts for each destination that has a plan. Older records have none. */
  destinations?: DestinationProgress[];
}

interface DestinationProgress {
  destination_id: string;
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
}

/**
 * The body of `GET /runs/{run_id}`, with its JSON names. Times are RFC 3339 in UTC. Contains no host paths
 * and no secrets.
 */
export interface RunRecord {
  run_id: string;
  pipeline_id: string;
  /** The run that this one repeats; null if it is not a rerun. */
  rerun_of: string | null;
  /** The channel that it publishes to; null for the current release and in place. */
  channel: string | null;
  /** The path of the uploaded bundle. null if the pipeline reads a source. Older records have none. */
  bundle_path?: string | null;
  /** Message, commit, branch and author, as stated by the producer. Older records have none. */
  revision?: Revision | null;
  /** The trusted publisher that uploaded the bundle or started the run; null if there is none. */
  published_by?: PublishedBy | null;
  /**
   * Whether it can be rerun: it has ended, was not rerun yet, and its bundle is available if it needs one.
   */
  rerunnable: boolean;
  status: RunStatus;
  triggered_by: TriggeredBy;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  /** Number of the current, last or next try, from 1. */
  attempt: number;
  /** When the next try is due; null unless the run is queued for a retry. */
  next_try_at: string | null;
  /** When retries end; null if no try has failed with a temporary cause. */
  retry_until: string | null;
  /** Cause of the last failed try that was or will be retried; null if there is none. */
  last_error: ErrorRecord | null;
  /** The destinations; while the run waits for its next try, as of the last try. */
  destinations: RunDestination[];
  /** null unless the run is running. */
  progress: RunProgress | null;
  summary: Counters | null;
  /** Empty until the run has finished. */
  warnings: RunWarning[];
  error: ErrorRecord | null;
  /** 32 hexadecimal digits; null if the run was accepted without a trace. */
  trace_id: string | null;
  /**
   * Deliveries of its events with a failed try, also after the run's end; at most 20 (`withNote`). A script
   * relies on the next field following this one.
   */
  failed_deliveries: FailedDelivery[];
  failed_deliveries_omitted: number;
}

/** An event of the run whose first delivery to a notifier failed. */
export interface FailedDelivery {
  notifier_id: string;
  event_id: string;
  event_type: string;
  /**
   * `retrying`: will be retried automatically. `given_up`: undelivered until it is redelivered on request.
   * `delivered`: succeeded in the end.
   */
  status: 'retrying' | 'given_up' | 'delivered';
  tries: number;
  /** Cause of the last failure, without secrets, paths or addresses; null if unknown. */
  last_error: string | null;
  /** Time of the next try while `retrying`; null if not set. */
  next_try_at: string | null;
  updated_at: string;
}

/** The run's trigger. */
export interface TriggeredBy {
  /**
   * `upload`: an uploaded bundle. `request`: a start request. `schedule`: a tick of the schedule. `watch`: a
   * change of the source.
   */
  kind: 'upload' | 'request' | 'schedule' | 'watch';
  /** The tick of the schedule, which may be old if it was caught up; null for the other kinds. */
  tick: string | null;
  /**
   * The id of the token that uploaded the bundle, started the run or repeated it. null for a schedule and a
   * watched source. Older records have none.
   */
  token_id?: string | null;
}

export interface RunWarning {
  /** null if it concerns the bundle or the source. */
  destination_id: string | null;
  code: string;
  message: string;
}

export interface RunDestination {
  destination_id: string;
  action: Action | 'error';
  /** Why this action was chosen; null if there was no choice. */
  reason: Reason | null;
  destination_path: string | null;
  /** The published release; for `skip_same` the current one. null in place and after a failure. */
  release: string | null;
  /** URL for readers; null if not configured, and after a failure. Absent in older records. */
  url?: string | null;
  outputs_written: number;
  /** Outputs linked from the previous release. */
  outputs_linked: number;
  /** Unchanged outputs. Kept, written and linked outputs add up to all of them. */
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
  /** The first changed paths, with the reasons; also for a failed publication. */
  changes: PlannedChange[];
  /** Number of further changes. */
  changes_omitted: number;
  error: ErrorRecord | null;
  /** When it was done; null if only the end of the run is known. Absent in older records. */
  finished_at?: string | null;
}

/*
 * The failed deliveries of a run's events, in its record. A delivery is listed from its first failed try on,
 * even if it succeeds later.
 */

/** The current state of a delivery. */
export interface DeliveryNote {
  notifierId: string;
  eventId: string;
  eventType: string;
  status: FailedDelivery['status'];
  tries: number;
  /** `tries` is added to the number in the record. */
  isMore: boolean;
  /** null if it was delivered. */
  reason: string | null;
  nextTryAt: string | null;
  at: Date;
}

export type FailedDeliveries = Pick<RunRecord, 'failed_deliveries' | 'failed_deliveries_omitted'>;

export const noFailedDeliveries: FailedDeliveries = { failed_deliveries: [], failed_deliveries_omitted: 0 };

/** The maximum in a record: with a dead receiver, every event of the run fails. */
export const maxFailedDeliveries = 20;
const maxReasonChars = 300;

/**
 * Returns the deliveries including the note, or null if nothing changes, as after a first successful try. If
 * the list is full, a delivered entry is replaced. Otherwise the new delivery is only counted and not
 * followed further.
 */
export function withNote(before: FailedDeliveries, note: DeliveryNote): FailedDeliveries | null {
  const list = before.failed_deliveries;
  const { notifierId, eventId } = note;
  const index = list.findIndex((one) => one.notifier_id === notifierId && one.event_id === eventId);
  const known = list[index];
  if (known !== undefined) return { ...before, failed_deliveries: list.with(index, noted(note, known)) };
  if (note.status === 'delivered') return null;
  // An unlisted delivery was counted at its first failure; this is a later note about it.
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

// Records are readable without a token, so addresses of internal services are removed.
const origin = /\b[a-z][a-z0-9+.-]*:\/\/[^\s,;)]+/gi;

function publicReason(reason: string): string {
  return withoutPaths(reason.replaceAll(origin, 'the receiver')).slice(0, maxReasonChars);
}

/** Returns the event's run and the note for its record, or null if the event has no run. */
export function noteOfOutcome(outcome: Outcome, at: Date): { runId: string; note: DeliveryNote } | null {
  const { delivered, tries, reason, isRedelivery } = outcome;
  const status = delivered ? 'delivered' : 'given_up';
  return noteOf(outcome, { status, tries, isMore: isRedelivery, reason, nextTryAt: null, at });
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

/** The record's fields before the first failure. */
export const firstTry = { attempt: 1, next_try_at: null, retry_until: null, last_error: null };

/** Parses a record from Redis. Only waybill writes these values. */
export function recordOf(text: string): RunRecord {
  return withAddedFields(JSON.parse(text) as EarlierRecord);
}

type AddedField =
  | 'rerun_of'
  | 'channel'
  | 'rerunnable'
  | 'triggered_by'
  | 'trace_id'
  | keyof typeof firstTry
  | 'failed_deliveries'
  | 'failed_deliveries_omitted';

type AddedDestinationField = 'reason' | 'changes' | 'changes_omitted';
type EarlierDestination = Omit<RunDestination, AddedDestinationField> &
  Partial<Pick<RunDestination, AddedDestinationField>>;

/** A record of an earlier version, which may lack newer fields. */
export type EarlierRecord = Omit<RunRecord, AddedField | 'destinations'> &
  Partial<Pick<RunRecord, AddedField>> & { destinations: EarlierDestination[] };

export function withAddedFields(record: EarlierRecord): RunRecord {
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
