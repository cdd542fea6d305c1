import type { Revision } from '../../core/bundle/source-bundle.ts';
import { type ErrorRecord, withoutPaths } from '../../core/lib/errors.ts';
import type { Outcome, Postponed } from '../../core/notify/delivery-queue.ts';
import type { Action, PlannedChange, Reason } from '../../core/publish/plan.ts';
import type { Counters } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';

export const runStatuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** A run's progress across all its destinations. */
export interface RunProgress {
  /**
   * `preparing`: reading the bundle and destinations. `writing`: writing outputs. `committing`: all outputs
   * planned so far have been written and are being committed.
   */
  stage: 'preparing' | 'writing' | 'committing';
  /** Number of outputs written. Unchanged outputs do not count. */
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
  /** The same counts for each destination that has a plan. Absent in older records. */
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
  /** The run that this one repeats, or null if it is not a rerun. */
  rerun_of: string | null;
  /** The channel that it publishes to, or null for the current release and for in-place publication. */
  channel: string | null;
  /** The uploaded bundle's path, or null if the pipeline reads a source. Absent in older records. */
  bundle_path?: string | null;
  /** Message, commit, branch and author, as provided by the producer. Absent in older records. */
  revision?: Revision | null;
  /** The trusted publisher that uploaded the bundle or started the run, or null if there is none. */
  published_by?: PublishedBy | null;
  /**
   * True if the run can be rerun: it has ended, has not been rerun yet, and its bundle is available if it
   * needs one.
   */
  rerunnable: boolean;
  status: RunStatus;
  triggered_by: TriggeredBy;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  /** Number of the current, last or next attempt, starting at 1. */
  attempt: number;
  /** When the next try is due, or null unless the run is queued for a retry. */
  next_try_at: string | null;
  /** When retries end, or null if no attempt has failed with a temporary cause. */
  retry_until: string | null;
  /** Cause of the last failed attempt that was or will be retried, or null if there is none. */
  last_error: ErrorRecord | null;
  /** The destinations. While the run waits for its next try, they are as of the last attempt. */
  destinations: RunDestination[];
  /** null unless the run is in progress. */
  progress: RunProgress | null;
  summary: Counters | null;
  /** Empty until the run has finished. */
  warnings: RunWarning[];
  error: ErrorRecord | null;
  /** 32 hexadecimal digits, or null if the run was accepted without a trace. */
  trace_id: string | null;
  /**
   * Deliveries of its events that failed at least once, including after the run's end, up to 20 (`withNote`).
   * A script relies on the next field directly following this one.
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
   * `retrying`: will be retried automatically. `given_up`: stays undelivered until it is redelivered on
   * request. `delivered`: succeeded in the end.
   */
  status: 'retrying' | 'given_up' | 'delivered';
  tries: number;
  /** Cause of the last failure, without secrets, paths or addresses. null if unknown. */
  last_error: string | null;
  /** Time of the next try while `retrying`, or null if not set. */
  next_try_at: string | null;
  updated_at: string;
}

/** What triggered the run. */
export interface TriggeredBy {
  /**
   * `upload`: an uploaded bundle. `request`: a start request. `schedule`: a tick of the schedule. `watch`: a
   * change of the source.
   */
  kind: 'upload' | 'request' | 'schedule' | 'watch';
  /** The schedule's tick, which may be old if it was caught up. null for the other kinds. */
  tick: string | null;
  /**
   * The id of the token that uploaded the bundle, or started or repeated the run. null for a schedule or a
   * watched source. Absent in older records.
   */
  token_id?: string | null;
}

export interface RunWarning {
  /** null if it is about the bundle or the source. */
  destination_id: string | null;
  code: string;
  message: string;
}

export interface RunDestination {
  destination_id: string;
  action: Action | 'error';
  /** Why this action was chosen, or null if there was no choice. */
  reason: Reason | null;
  destination_path: string | null;
  /**
   * The published release, which is the current one for `skip_same`. null for in-place publication and after
   * a failure.
   */
  release: string | null;
  /** URL for readers, or null if it is not configured or after a failure. Absent in older records. */
  url?: string | null;
  outputs_written: number;
  /** Outputs linked from the previous release. */
  outputs_linked: number;
  /** Number of unchanged outputs. Kept, written and linked outputs add up to the total. */
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
  /** The first changed paths with their reasons, including for a failed publication. */
  changes: PlannedChange[];
  /** Number of further changes. */
  changes_omitted: number;
  error: ErrorRecord | null;
  /** When it was done, or null if only the end of the run is known. Absent in older records. */
  finished_at?: string | null;
}

/*
 * The failed deliveries of a run's events, as listed in its record. A delivery is listed from its first
 * failure on, even if it succeeds later.
 */

/** The current state of a delivery. */
export interface DeliveryNote {
  notifierId: string;
  eventId: string;
  eventType: string;
  status: FailedDelivery['status'];
  tries: number;
  /** True if `tries` is added to the number in the record. */
  isMore: boolean;
  /** null if it was delivered. */
  reason: string | null;
  nextTryAt: string | null;
  at: Date;
}

export type FailedDeliveries = Pick<RunRecord, 'failed_deliveries' | 'failed_deliveries_omitted'>;

export const noFailedDeliveries: FailedDeliveries = { failed_deliveries: [], failed_deliveries_omitted: 0 };

/** Maximum number in a record, because with a dead receiver every event of the run fails. */
export const maxFailedDeliveries = 20;
const maxReasonChars = 300;

/**
 * Returns the deliveries including the note. Returns null if nothing changes, for example after a first
 * attempt that succeeded. If the list is full, a delivered entry is replaced. Otherwise the new delivery is
 * only counted and not tracked further.
 */
export function withNote(before: FailedDeliveries, note: DeliveryNote): FailedDeliveries | null {
  const list = before.failed_deliveries;
  const { notifierId, eventId } = note;
  const index = list.findIndex((one) => one.notifier_id === notifierId && one.event_id === eventId);
  const known = list[index];
  if (known !== undefined) return { ...before, failed_deliveries: list.with(index, noted(note, known)) };
  if (note.status === 'delivered') return null;
  // An unlisted delivery was counted when it first failed, and this is a later note about it.
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

// Records can be read without a token, so addresses of internal services are removed.
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

/** A record from an earlier version, which may lack newer fields. */
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
