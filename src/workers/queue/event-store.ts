import {
  noOutbox,
  type Outbox,
  type UndeliveredEvents,
  undeliveredInMemory,
} from '../../core/notify/outbox.ts';
import type { DeliveryNotes } from './job-queue.ts';
import type { DeliveryNote } from './run-record.ts';

/** Stores a process's events together with its queue, so that they last as long as its runs. */
export interface EventStore {
  readonly outbox: Outbox;
  /** The undelivered events of all hosts. */
  readonly undelivered: UndeliveredEvents;
  /**
   * Resolves once all events so far are stored outside this process or have failed to be stored. Never
   * rejects.
   */
  flushed(): Promise<void>;
  /** Adds the state of a delivery to its run's record. Returns immediately and never throws. */
  note(runId: string, note: DeliveryNote): void;
  /** Sets the queue that holds the records, once it is open. */
  attach(queue: DeliveryNotes): void;
  /** Called after the notifiers are closed. Waits up to a few seconds for pending writes. */
  close(): Promise<void>;
}

/**
 * Returns the events of a single-process queue, which also holds the records. `kept` stores them beyond the
 * process. If it is null, they stay in memory.
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
    // The journal writes events in order, before the end of their run.
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
