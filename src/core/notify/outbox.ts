import { WaybillError } from '../lib/errors.ts';
import type { TracedEvent } from './event.ts';

/*
 * The contract for storing events until they are delivered. Queues implement it.
 */

/** An event for one notifier. Plain data. */
export interface OutboxEvent extends TracedEvent {
  notifierId: string;
}

export interface AbandonedEvent extends OutboxEvent {
  ended: Ended;
}

/**
 * Called when a delivery has succeeded or failed. A failed event is then stored elsewhere, and the outbox
 * removes it only after `kept` has resolved.
 */
export type Ended = (kept?: Promise<void>) => void;

/** Stores events until their delivery has ended, even if the process exits before that. */
export interface Outbox {
  /** Whether undelivered events are kept for other processes when this one exits. */
  readonly outlives: boolean;
  /**
   * Called once. `take` receives the events left by earlier processes, oldest first. If several processes
   * share the outbox, it also receives the events of processes that exit later.
   */
  open(take: (left: AbandonedEvent) => void): void;
  /**
   * Stores an event for these notifiers. Calls `deliver` for each of them once the event may be delivered:
   * either immediately, or when it is stored where other processes can find it. Does not call it for an event
   * that was already stored by a process that has exited.
   */
  keep(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, ended: Ended) => void,
  ): void;
}

/** An outbox that stores nothing. Undelivered events are lost when the process exits. */
export const noOutbox: Outbox = {
  outlives: false,
  open: () => undefined,
  keep: (_traced, notifierIds, deliver) => {
    for (const notifierId of notifierIds) deliver(notifierId, () => undefined);
  },
};

/*
 * The contract for storing events that could not be delivered. Queues implement it.
 */

/** An event that could not be delivered to one notifier. Plain data. */
export interface Undelivered extends TracedEvent {
  /** The total number of attempts. */
  tries: number;
  /** Why the last delivery failed, without secrets. */
  reason: string;
  /** When the last delivery failed, as RFC 3339 in UTC. */
  givenUpAt: string;
}

/**
 * Undelivered events by notifier. If a notifier has more than `maxUndelivered` events, the oldest are
 * dropped. Events of notifiers that are no longer configured are kept.
 */
export interface UndeliveredEvents {
  /**
   * Stores an event, replacing any earlier entry for it. Resolves once the event is stored. Never rejects.
   */
  keep(notifierId: string, undelivered: Undelivered): Promise<void>;
  /** Returns the events in the order in which they happened. */
  list(notifierId: string): Promise<Undelivered[]>;
  /** Removes an event after its delivery. */
  remove(notifierId: string, eventId: string): Promise<void>;
  /** Returns the number of events for each notifier that has any. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /**
   * Acquires the exclusive right to redeliver a notifier's events until `release` is called. Throws
   * `redelivery_running` if another client holds it.
   */
  claim(notifierId: string): Promise<Claim>;
}

export interface Claim {
  /** Never rejects. */
  release(): Promise<void>;
}

/** The maximum number of stored events per notifier. */
export const maxUndelivered = 1_000;

/** A stored event with its position. */
export interface UndeliveredEntry {
  undelivered: Undelivered;
  /** Orders events that happened in the same millisecond. */
  seq: number;
}

/** Compares events by when they happened. */
export function inOrder(a: UndeliveredEntry, b: UndeliveredEntry): number {
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

/*
 * Keeps a process's undelivered events in memory. The embedded queue also writes them to disk.
 */

/** One undelivered event for one notifier. Plain data. */
export interface StoredUndelivered extends UndeliveredEntry {
  notifierId: string;
}

interface UndeliveredInMemoryOptions {
  /** Events stored by earlier processes, in any order. Default: none. */
  left?: readonly StoredUndelivered[];
  /** Called for each change, to persist it. null removes the event. */
  write?: (key: { notifierId: string; eventId: string }, kept: StoredUndelivered | null) => void;
  /** Called when a notifier's oldest event was dropped because of the limit. */
  onDropped?: (notifierId: string, count: number) => void;
}

/**
 * Creates an in-memory store. All changes take effect synchronously, before the returned promises resolve.
 */
export function undeliveredInMemory(options: UndeliveredInMemoryOptions = {}): UndeliveredEvents {
  const { left = [], write = () => undefined, onDropped = () => undefined } = options;
  /** Keyed by notifier, then by event. */
  const books = new Map<string, Map<string, StoredUndelivered>>();
  const claimed = new Set<string>();
  let lastSeq = 0;

  const put = (kept: StoredUndelivered): Map<string, StoredUndelivered> => {
    const { notifierId, undelivered } = kept;
    const book = books.get(notifierId) ?? new Map<string, StoredUndelivered>();
    books.set(notifierId, book);
    book.set(undelivered.event.id, kept);
    lastSeq = Math.max(lastSeq, kept.seq);
    return book;
  };
  const drop = (notifierId: string, eventId: string): void => {
    const book = books.get(notifierId);
    if (book?.delete(eventId) !== true) return;
    if (book.size === 0) books.delete(notifierId);
    write({ notifierId, eventId }, null);
  };
  for (const kept of left) put(kept);

  return {
    async keep(notifierId, undelivered) {
      const { id: eventId } = undelivered.event;
      const seq = books.get(notifierId)?.get(eventId)?.seq ?? lastSeq + 1;
      const kept: StoredUndelivered = { notifierId, undelivered, seq };
      const book = put(kept);
      write({ notifierId, eventId }, kept);
      if (book.size <= maxUndelivered) return;
      const oldest = [...book.values()].reduce((first, one) => (inOrder(one, first) < 0 ? one : first));
      drop(notifierId, oldest.undelivered.event.id);
      onDropped(notifierId, 1);
    },
    list: async (notifierId) =>
      [...(books.get(notifierId)?.values() ?? [])].sort(inOrder).map(({ undelivered }) => undelivered),
    remove: async (notifierId, eventId) => drop(notifierId, eventId),
    counts: async () => new Map([...books].map(([id, { size }]) => [id, size])),
    async claim(notifierId) {
      if (claimed.has(notifierId)) throw redeliveryRunning(notifierId);
      claimed.add(notifierId);
      return { release: async () => void claimed.delete(notifierId) };
    },
  };
}
