import {
  noOutbox,
  type Outbox,
  type UndeliveredEvents,
  undeliveredInMemory,
} from '../../core/notify/outbox.ts';
import type { DeliveryNotes } from './job-queue.ts';
import type { DeliveryNote } from './run-record.ts';

/** Stores a process's events along with its queue, so that they survive as long as its runs. */
export interface EventStore {
  readonly outbox: Outbox;
  /** The undelivered events of all hosts. */
  readonly undelivered: UndeliveredEvents;
  /**
   * Resolves once every event so far has been stored outside this process, or could not be. Never rejects.
   */
  flushed(): Promise<void>;
  /** Adds the state of a delivery to the record of its run. Returns immediately and never throws. */
  note(runId: string, note: DeliveryNote): void;
  /** Sets the queue that has the records. Called once the queue is open. */
  attach(queue: DeliveryNotes): void;
  /** Waits up to a few seconds for pending writes. Call this after the notifiers are closed. */
  close(): Promise<void>;
}

/**
 * Creates the event store of a single-process queue. `kept` stores the events outside the process. If it is
 * null, events only exist in memory.
 */
export function eventsOfOneProcess(
  kept: Pick<EventStore, 'outbox' | 'undelivered'> | null,
  onDropped: (notifierId: string, count: number) => void,
): EventStore {
  const { outbox, undelivered } = kept ?? {
    outbox: noOutbox,
    undelivered: undeliveredInMemory({ onDropped }),
  };
  let queue: DeliveryNotes | undefined;
  const early: [runId: string, note: DeliveryNote][] = [];
  return {
    outbox,
    undelivered,
    // The journal writes everything in order, so events are written before the end of their run.
    flushed: async () => undefined,
    note: (runId, note) => {
      if (queue === undefined) early.push([runId, note]);
      else void queue.noteDelivery(runId, note);
    },
    attach: (opened) => {
      queue = opened;
      for (const [runId, note] of early.splice(0)) void opened.noteDelivery(runId, note);
    },
    close: async () => undefined,
  };
}
