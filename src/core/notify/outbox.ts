import { WaybillError } from '../lib/errors.ts';
import type { TracedEvent } from './event.ts';

/*
 * Stores events until they have been delivered. There is an implementation for each kind of queue.
 */

/** An event that a notifier has to deliver. Plain data. */
export interface OutboxEvent extends TracedEvent {
  notifierId: string;
}

export interface AbandonedEvent extends OutboxEvent {
  onEnd: OnDeliveryEnd;
}

/**
 * Call this when a delivery has succeeded or failed. A failed event is stored somewhere else, and stays in
 * the outbox until `stored` resolves.
 */
export type OnDeliveryEnd = (stored?: Promise<void>) => void;

/** Stores events until their delivery is over, even if this process exits before that. */
export interface Outbox {
  /** Whether undelivered events are still there for other processes after this one exits. */
  readonly isDurable: boolean;
  /**
   * Call this once. Events that earlier processes left behind are passed to `take`, oldest first. If several
   * processes share the outbox, so are the events of any process that exits later.
   */
  open(take: (event: AbandonedEvent) => void): void;
  /**
   * Stores an event for these notifiers. As soon as it may be delivered, calls `deliver` for each of them.
   * This is either right away, or when other processes can find the event. If a process that has exited
   * stored the same event before, `deliver` is not called.
   */
  store(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, onEnd: OnDeliveryEnd) => void,
  ): void;
}

/** Stores nothing. If the process exits, undelivered events are lost. */
export const noOutbox: Outbox = {
  isDurable: false,
  open: () => undefined,
  store: (_traced, notifierIds, deliver) => {
    for (const notifierId of notifierIds) deliver(notifierId, () => undefined);
  },
};

/*
 * Stores events that could not be delivered. There is an implementation for each kind of queue.
 */

/** An event that a notifier could not deliver. Plain data. */
export interface Undelivered extends TracedEvent {
  /** How many attempts there were in total. */
  tries: number;
  /** The reason why the last delivery failed. Does not contain secrets. */
  reason: string;
  /** The time when the last delivery failed (RFC 3339, UTC). */
  givenUpAt: string;
}

/**
 * The undelivered events of each notifier. If there are more than `maxUndelivered`, the oldest are dropped. A
 * notifier's events stay when it is removed from the configuration.
 */
export interface UndeliveredEvents {
  /** Stores an event, and replaces it if it is there already. Resolves when it is stored. Never rejects. */
  store(notifierId: string, undelivered: Undelivered): Promise<void>;
  /** Returns the events in the order they happened. */
  list(notifierId: string): Promise<Undelivered[]>;
  /** Removes an event that has been delivered. */
  remove(notifierId: string, eventId: string): Promise<void>;
  /** Returns how many events there are for each notifier. Leaves out notifiers that have none. */
  counts(): Promise<ReadonlyMap<string, number>>;
  /**
   * Claims the events of a notifier, so that no other client can redeliver them before `release` is called.
   * Throws a `redelivery_running` error if another client has done this.
   */
  claim(notifierId: string): Promise<Claim>;
}

export interface Claim {
  /** Ends the claim. Never rejects. */
  release(): Promise<void>;
}

/** How many events to store for each notifier. */
export const maxUndelivered = 1_000;

/** An event in the store, with its place in the order. */
export interface UndeliveredEntry {
  undelivered: Undelivered;
  /** Decides the order of events that happened in the same millisecond. */
  seq: number;
}

/** Compares two events by the time when they happened. */
export function compareAge(a: UndeliveredEntry, b: UndeliveredEntry): number {
  const first = a.undelivered.event.timestamp;
  const second = b.undelivered.event.timestamp;
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
 * Stores the undelivered events of a process in memory. The embedded queue also writes them to disk.
 */

/** An event that a notifier could not deliver. Plain data. */
export interface StoredUndelivered extends UndeliveredEntry {
  notifierId: string;
}

interface UndeliveredInMemoryOptions {
  /** Events from earlier processes, in any order; default: none. */
  restored?: readonly StoredUndelivered[];
  /** Called with every change so that it can be saved, or with null if the event was removed. */
  write?: (key: { notifierId: string; eventId: string }, entry: StoredUndelivered | null) => void;
  /** Called when the oldest event of a notifier had to be dropped because there were too many. */
  onDropped?: (notifierId: string, count: number) => void;
}

/** Returns a store in memory. Changes take effect right away, even before the promise resolves. */
export function undeliveredInMemory(options: UndeliveredInMemoryOptions = {}): UndeliveredEvents {
  const { restored = [], write = () => undefined, onDropped = () => undefined } = options;
  /** Stored events, by notifier and then by event. */
  const books = new Map<string, Map<string, StoredUndelivered>>();
  const claimed = new Set<string>();
  let lastSeq = 0;

  const put = (entry: StoredUndelivered): Map<string, StoredUndelivered> => {
    const { notifierId, undelivered } = entry;
    const book = books.get(notifierId) ?? new Map<string, StoredUndelivered>();
    books.set(notifierId, book);
    book.set(undelivered.event.id, entry);
    lastSeq = Math.max(lastSeq, entry.seq);
    return book;
  };
  const drop = (notifierId: string, eventId: string): void => {
    const book = books.get(notifierId);
    if (book?.delete(eventId) !== true) return;
    if (book.size === 0) books.delete(notifierId);
    write({ notifierId, eventId }, null);
  };
  for (const entry of restored) put(entry);

  return {
    async store(notifierId, undelivered) {
      const { id: eventId } = undelivered.event;
      const seq = books.get(notifierId)?.get(eventId)?.seq ?? lastSeq + 1;
      const entry: StoredUndelivered = { notifierId, undelivered, seq };
      const book = put(entry);
      write({ notifierId, eventId }, entry);
      if (book.size <= maxUndelivered) return;
      const oldest = [...book.values()].reduce((first, one) => (compareAge(one, first) < 0 ? one : first));
      drop(notifierId, oldest.undelivered.event.id);
      onDropped(notifierId, 1);
    },
    list: async (notifierId) =>
      [...(books.get(notifierId)?.values() ?? [])].sort(compareAge).map(({ undelivered }) => undelivered),
    remove: async (notifierId, eventId) => drop(notifierId, eventId),
    counts: async () => new Map([...books].map(([id, { size }]) => [id, size])),
    async claim(notifierId) {
      if (claimed.has(notifierId)) throw redeliveryRunning(notifierId);
      claimed.add(notifierId);
      return { release: async () => void claimed.delete(notifierId) };
    },
  };
}
