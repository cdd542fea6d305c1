import type { Revision } from '../../core/bundle/source-bundle.ts';
import { type ErrorRecord, withoutPaths } from '../../core/lib/errors.ts';
import type { DeliveryOutcome, Postponed } from '../../core/notify/delivery-queue.ts';
import type { Action, PlannedChange, Reason } from '../../core/publish/plan.ts';
import type { Counters } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';

export const runStatuses = ['accepted', 'queued', 'running', 'succeeded', 'failed'] as const;
export type RunStatus = (typeof runStatuses)[number];

/** The progress of a run across all of its destinations. */
export interface RunProgress {
  /**
   * `preparing`: the bundle and the destinations are being read. `writing`: outputs are being written.
   * `committing`: everything planned so far has been written and is being committed.
   */
  stage: 'preparing' | 'writing' | 'committing';
  /** The number of outputs written so far. Outputs that do not change are not counted. */
  outputs_done: number;
  outputs_total: number;
  bytes_done: number;
  bytes_total: number;
  /** The same numbers for each destination that has a plan by now. Absent in older records. */
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
 * The response of `GET /runs/{run_id}`, with the names used in JSON. Times are RFC 3339 in UTC. There are no
 * host paths and no secrets in it.
 */
export interface RunRecord {
  run_id: string;
  pipeline_id: string;
  /** The run that this one repeats, or null. */
  rerun_of: string | null;
  /** The channel it publishes to. null for the current release and for in-place publication. */
  channel: string | null;
  /** The path of the uploaded bundle, or null if the pipeline reads a source. Absent in older records. */
  bundle_path?: string | null;
  /** Message, commit, branch, and author, if the producer specified them. Absent in older records. */
  revision?: Revision | null;
  /** The trusted publisher that uploaded the bundle or started the run, or null. */
  published_by?: PublishedBy | null;
  /**
   * True if the run can be rerun. For this, it must have ended, must not have been rerun yet, and must still
   * have its bundle if it needs one.
   */
  rerunnable: boolean;
  status: RunStatus;
  triggered_by: TriggeredBy;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  /** The number of the current attempt, or else of the next or last one. Starts at 1. */
  attempt: number;
  /** The time of the next attempt, or null if the run is not queued for a retry. */
  next_try_at: string | null;
  /** The time at which retries end, or null if no attempt has failed for a temporary reason. */
  retry_until: string | null;
  /** The error of the last attempt that was retried or is going to be. null if there was not any. */
  last_error: ErrorRecord | null;
  /** The destinations. While the run waits for its next attempt, they show the results of the last one. */
  destinations: RunDestination[];
  /** null if the run is not in progress. */
  progress: RunProgress | null;
  summary: Counters | null;
  /** Empty until the run has finished. */
  warnings: RunWarning[];
  error: ErrorRecord | null;
  /** 32 hexadecimal digits, or null if the run was accepted without a trace. */
  trace_id: string | null;
  /**
   * The deliveries of this run's events that failed at least once, even after the run's end. There are at
   * most 20 (see `withNote`). The next field must come right after this one, because a Lua script depends on
   * it.
   */
  failed_deliveries: FailedDelivery[];
  failed_deliveries_omitted: number;
}

/** An event of the run that could not be delivered to a notifier the first time. */
export interface FailedDelivery {
  notifier_id: string;
  event_id: string;
  event_type: string;
  /**
   * `retrying`: will be retried automatically. `given_up`: is only retried on request. `delivered`: arrived
   * eventually.
   */
  status: 'retrying' | 'given_up' | 'delivered';
  tries: number;
  /** The error of the last attempt, without any secrets, paths, or addresses. null if it is not known. */
  last_error: string | null;
  /** The time of the next retry. null if the status is not `retrying` or the time is not known. */
  next_try_at: string | null;
  updated_at: string;
}

/** The event that started the run. */
export interface TriggeredBy {
  /**
   * `upload`: a bundle was uploaded. `request`: a client asked for the run. `schedule`: the schedule ticked.
   * `watch`: the source changed.
   */
  kind: 'upload' | 'request' | 'schedule' | 'watch';
  /** The tick that started the run. It may be old if it had been missed. null unless `kind` is `schedule`. */
  tick: string | null;
  /**
   * The id of the token that was used to upload the bundle or to start or repeat the run. null if the run was
   * started by a schedule or a watched source. Absent in older records.
   */
  token_id?: string | null;
}

export interface RunWarning {
  /** null if this is about the bundle or the source. */
  destination_id: string | null;
  code: string;
  message: string;
}

export interface RunDestination {
  destination_id: string;
  action: Action | 'error';
  /** Why this action was chosen, or null if there was no alternative. */
  reason: Reason | null;
  destination_path: string | null;
  /**
   * The published release. For `skip_same`, it is the one that was already current. null for in-place
   * publication and after a failure.
   */
  release: string | null;
  /** The URL for readers. null if none is configured, and after a failure. Absent in older records. */
  url?: string | null;
  outputs_written: number;
  /** The number of outputs that were linked from the previous release. */
  outputs_linked: number;
  /**
   * The number of outputs that did not change. Together with the ones written and linked, that is all of
   * them.
   */
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
  /** The first few paths that changed, and why. Also there if the publication failed. */
  changes: PlannedChange[];
  /** The number of changes that are not listed. */
  changes_omitted: number;
  error: ErrorRecord | null;
  /**
   * The time when this destination was done, or null if we only know the end of the run. Absent in older
   * records.
   */
  finished_at?: string | null;
}

/*
 * The failed deliveries of a run's events, for its record. Once a delivery has failed, it stays on the list
 * even if it succeeds later.
 */

/** The current state of a delivery. */
export interface DeliveryNote {
  notifierId: string;
  eventId: string;
  eventType: string;
  status: FailedDelivery['status'];
  tries: number;
  /** True if `tries` has to be added to the number in the record. */
  isMore: boolean;
  /** The reason for the failure, or null if it was delivered. */
  reason: string | null;
  nextTryAt: string | null;
  at: Date;
}

export type FailedDeliveries = Pick<RunRecord, 'failed_deliveries' | 'failed_deliveries_omitted'>;

export const noFailedDeliveries: FailedDeliveries = { failed_deliveries: [], failed_deliveries_omitted: 0 };

/**
 * The maximum number of failed deliveries in a record. If a receiver is down, every event of the run fails.
 */
export const maxFailedDeliveries = 20;
const maxReasonChars = 300;

/**
 * Adds a note to the list of failed deliveries. Returns null if that does not change anything, for example
 * because the first attempt succeeded. If the list is full, an entry that was delivered by now is replaced.
 * If there is no such entry, the new delivery is only counted.
 */
export function withNote(before: FailedDeliveries, note: DeliveryNote): FailedDeliveries | null {
  const list = before.failed_deliveries;
  const { notifierId, eventId } = note;
  const index = list.findIndex((one) => one.notifier_id === notifierId && one.event_id === eventId);
  const known = list[index];
  if (known !== undefined) return { ...before, failed_deliveries: list.with(index, noted(note, known)) };
  if (note.status === 'delivered') return null;
  // Deliveries that are not on the list were counted when they first failed. This is a later note about one
  // of them.
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

// Records can be read without a token, so remove the addresses of internal services.
const origin = /\b[a-z][a-z0-9+.-]*:\/\/[^\s,;)]+/gi;

function publicReason(reason: string): string {
  return withoutPaths(reason.replaceAll(origin, 'the receiver')).slice(0, maxReasonChars);
}

/** Creates the note for a delivery that has ended. Returns null if the event does not belong to a run. */
export function outcomeNote(
  outcome: DeliveryOutcome,
  at: Date,
): { runId: string; note: DeliveryNote } | null {
  const { delivered, tries, reason, isRedelivery } = outcome;
  const status = delivered ? 'delivered' : 'given_up';
  return noteOf(outcome, { status, tries, isMore: isRedelivery, reason, nextTryAt: null, at });
}

export function postponedNote(postponed: Postponed, at: Date): { runId: string; note: DeliveryNote } | null {
  const { tries, reason, nextTryAt } = postponed;
  return noteOf(postponed, { status: 'retrying', tries, isMore: false, reason, nextTryAt, at });
}

function noteOf(
  { event, notifierId }: Pick<DeliveryOutcome, 'event' | 'notifierId'>,
  rest: Omit<DeliveryNote, 'notifierId' | 'eventId' | 'eventType'>,
): { runId: string; note: DeliveryNote } | null {
  const { id: eventId, type: eventType, data } = event;
  if (!('run_id' in data) || data.run_id === null) return null;
  return { runId: data.run_id, note: { notifierId, eventId, eventType, ...rest } };
}

/** These fields as they are before anything has failed. */
export const firstTry = { attempt: 1, next_try_at: null, retry_until: null, last_error: null };

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

/** A record written by an earlier version. Newer fields may be missing. */
export type LegacyRunRecord = Omit<RunRecord, AddedField | 'destinations'> &
  Partial<Pick<RunRecord, AddedField>> & { destinations: EarlierDestination[] };

export function upgradeRecord(record: LegacyRunRecord): RunRecord {
  return {
    rerun_of: null,
    channel: null,
    rerunnable: false,
    triggered_by: { kind: 'request', tick: null },
    trace_id: null,
    ...firstTry,
    ...noFailedDeliveries,
    ...record,
    destinations: record.destinations.map((one) => ({ ...noChanges, ...one })),
  };
}

const noChanges = { reason: null, changes: [], changes_omitted: 0 };
