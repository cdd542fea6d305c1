import type { Outcome, Postponed } from '../../core/notify/lane.ts';
import { withoutPaths } from '../../core/lib/errors.ts';
import type { FailedDelivery, RunRecord } from './run-record.ts';

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
export const mostFailedDeliveries = 20;
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
  const room = list.length < mostFailedDeliveries ? list : withoutOneDelivered(list);
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
