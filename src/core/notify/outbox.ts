import type { TracedEvent } from './event.ts';

/** An event for one notifier. Plain data. */
export interface KeptEvent extends TracedEvent {
  notifierId: string;
}

export interface LeftEvent extends KeptEvent {
  ended: Ended;
}

/**
 * Called when a delivery has ended one way or the other. What was given up is kept elsewhere from then on:
 * the event is not forgotten before `kept` resolves, where that takes more than this turn.
 */
export type Ended = (kept?: Promise<void>) => void;

/** Keeps events beyond the life of the process, until their delivery has ended one way or the other. */
export interface Outbox {
  /** Whether what is not delivered when the process ends is kept, for the next one or for another. */
  readonly outlives: boolean;
  /**
   * Called once: `take` gets what earlier processes left, oldest first; and from then on, where several
   * processes share the outbox, what those leave that end.
   */
  open(take: (left: LeftEvent) => void): void;
  /**
   * Keeps an event for these notifiers, and calls `deliver` for each of them once it may be delivered: in
   * this turn, or when it is kept where others can find it. It is not called for what a process that has
   * ended had kept before it.
   */
  keep(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, ended: Ended) => void,
  ): void;
}

/** Keeps nothing: what is not delivered ends with the process. */
export const noOutbox: Outbox = {
  outlives: false,
  open: () => undefined,
  keep: (_traced, notifierIds, deliver) => {
    for (const notifierId of notifierIds) deliver(notifierId, () => undefined);
  },
};
