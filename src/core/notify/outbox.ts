import type { TracedEvent } from './event.ts';

/*
 * The contract for storing events until they are delivered. Queues implement it.
 */

/** An event for one notifier. Plain data. */
export interface KeptEvent extends TracedEvent {
  notifierId: string;
}

export interface LeftEvent extends KeptEvent {
  ended: Ended;
}

/**
 * Called when a delivery has succeeded or failed. A failed event is then stored elsewhere. The outbox forgets
 * it only after `kept` has resolved.
 */
export type Ended = (kept?: Promise<void>) => void;

/** Stores events beyond the life of the process, until their delivery has ended. */
export interface Outbox {
  /** Whether undelivered events are kept for other processes when this one ends. */
  readonly outlives: boolean;
  /**
   * Called once. `take` receives the events that earlier processes left, oldest first. If several processes
   * share the outbox, it also receives the events of those that end later.
   */
  open(take: (left: LeftEvent) => void): void;
  /**
   * Stores an event for these notifiers. Calls `deliver` for each of them once it may be delivered:
   * immediately, or when the event is stored where other processes can find it. Does not call it for an event
   * that an ended process had stored before.
   */
  keep(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, ended: Ended) => void,
  ): void;
}

/** Stores nothing: undelivered events are lost when the process ends. */
export const noOutbox: Outbox = {
  outlives: false,
  open: () => undefined,
  keep: (_traced, notifierIds, deliver) => {
    for (const notifierId of notifierIds) deliver(notifierId, () => undefined);
  },
};
