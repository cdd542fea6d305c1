import { noOutbox, type Outbox } from '../../core/notify/outbox.ts';
import { undeliveredBook, type UndeliveredEvents } from '../../core/notify/undelivered.ts';
import type { DeliveryNotes } from './job-queue.ts';
import type { DeliveryNote } from './run-record.ts';

/** Where the events of a process are kept, with the queue: they live as long as its runs do. */
export interface EventKeeping {
  readonly outbox: Outbox;
  /** What was given up; every host sees that of all. */
  readonly undelivered: UndeliveredEvents;
  /**
   * Resolves once what was told until now is kept beyond this process, or cannot be; where there are several
   * Redis, what belongs to the one of this name. Never rejects.
   */
  told(redis?: string): Promise<void>;
  /** Notes in the record of its run what became of a delivery. Never throws; it may take a moment. */
  note(runId: string, note: DeliveryNote): void;
  /** The queue, once it is open: the records are there. */
  attach(queue: DeliveryNotes): void;
  /** After the notifiers; waits some seconds for what is being kept. */
  close(): Promise<void>;
}

/** That of a queue of one process, whose records are in that queue; `kept` if it outlives the process. */
export function eventsOfOneProcess(
  kept: Pick<EventKeeping, 'outbox' | 'undelivered'> | null,
  onDropped: (notifierId: string, count: number) => void,
): EventKeeping {
  const { outbox, undelivered } = kept ?? { outbox: noOutbox, undelivered: undeliveredBook({ onDropped }) };
  let queue: DeliveryNotes | undefined;
  const early: [runId: string, note: DeliveryNote][] = [];
  return {
    outbox,
    undelivered,
    // The journal writes them in their order, before the end of their run.
    told: async () => undefined,
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
