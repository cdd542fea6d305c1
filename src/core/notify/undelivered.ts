import { WaybillError } from '../lib/errors.ts';
import type { TracedEvent } from './event.ts';

/*
 * The contract for storing events whose delivery failed. Queues implement it.
 */

/** An event whose delivery to one notifier failed. Plain data. */
export interface Undelivered extends TracedEvent {
  /** The total number of tries. */
  tries: number;
  /** Why the last delivery failed, without secrets. */
  reason: string;
  /** When the last delivery failed: RFC 3339, UTC. */
  givenUpAt: string;
}

/**
 * Undelivered events by notifier. Beyond `mostUndelivered` events of a notifier, the oldest are dropped. The
 * events of a notifier that is no longer configured are kept.
 */
export interface UndeliveredEvents {
  /** Stores an event, replacing an earlier entry of the same event. Resolves once stored. Never rejects. */
  keep(notifierId: string, undelivered: Undelivered): Promise<void>;
  /** The events in the order in which they happened. */
  list(notifierId: string): Promise<Undelivered[]>;
  /** Removes an event after its delivery. */
  remove(notifierId: string, eventId: string): Promise<void>;
  /** The number of events of each notifier that has any. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /**
   * Takes the exclusive right to redeliver a notifier's events, until `release`. Throws `redelivery_running`
   * if another client has it.
   */
  claim(notifierId: string): Promise<Claim>;
}

export interface Claim {
  /** Never rejects. */
  release(): Promise<void>;
}

/** The maximum number of stored events per notifier. */
export const mostUndelivered = 1_000;

/** A stored event with its position. */
export interface Kept {
  undelivered: Undelivered;
  /** Orders events of the same millisecond. */
  seq: number;
}

/** Orders events by the time when they happened. */
export function inOrder(a: Kept, b: Kept): number {
  const [first, second] = [a.undelivered.event.timestamp, b.undelivered.event.timestamp];
  return first < second ? -1 : first > second ? 1 : a.seq - b.seq;
}

export function redeliveryRunning(notifierId: string): WaybillError {
  return new WaybillError(
    'redelivery_running',
    `the events of the notifier "${notifierId}" are already being redelivered`,
    { hint: 'wait until that has finished, then list the remaining events' },
  );
}
