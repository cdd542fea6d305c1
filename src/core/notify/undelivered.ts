import { WaybillError } from '../errors.ts';
import type { TracedEvent } from './event.ts';

/** An event that was given up for one notifier. Plain data. */
export interface Undelivered extends TracedEvent {
  /** All its tries. */
  tries: number;
  /** Why it was given up last, in words without a secret. */
  reason: string;
  /** When it was given up last: RFC 3339, UTC. */
  givenUpAt: string;
}

/**
 * The events that were given up, by notifier: at most `mostUndelivered` of each. Where there are more, the
 * oldest go. What belongs to a notifier that is not configured any more stays.
 */
export interface UndeliveredEvents {
  /** Keeps it, in the place of what is kept of the same event. Never rejects; resolves once it is kept. */
  keep(notifierId: string, undelivered: Undelivered): Promise<void>;
  /** In the order in which the events happened. */
  list(notifierId: string): Promise<Undelivered[]>;
  /** The event was delivered after all. */
  remove(notifierId: string, eventId: string): Promise<void>;
  /** How many there are, of each notifier that has any. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /**
   * The right to send to this notifier again what is kept for it, until `release`. Throws
   * `redelivery_running` if somebody has it.
   */
  claim(notifierId: string): Promise<Claim>;
}

export interface Claim {
  /** Never rejects. */
  release(): Promise<void>;
}

/** So many events are kept for each notifier. */
export const mostUndelivered = 1_000;

/** What is kept of an event, with its place among those that were given up. */
export interface Kept {
  undelivered: Undelivered;
  /** Of events of the same millisecond the smaller one came first. */
  seq: number;
}

/** Sorts by when the events happened. */
export function inOrder(a: Kept, b: Kept): number {
  const [first, second] = [a.undelivered.event.timestamp, b.undelivered.event.timestamp];
  return first < second ? -1 : first > second ? 1 : a.seq - b.seq;
}

export function redeliveryRunning(notifierId: string): WaybillError {
  return new WaybillError(
    'redelivery_running',
    `the events of the notifier "${notifierId}" are being sent again already`,
    { hint: 'wait for that, and look at what is left then' },
  );
}
