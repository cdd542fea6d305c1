import type { Event } from './event.ts';

/** Keeps events beyond the life of the process, until their delivery has ended one way or the other. */
export interface Outbox {
  /** What earlier processes left, oldest first. */
  readonly left: readonly { notifierId: string; event: Event; ended: () => void }[];
  /** Keeps an event for a notifier; the returned function is called when its delivery has ended. */
  keep(notifierId: string, event: Event): () => void;
}

/** Keeps nothing: what is not delivered ends with the process. */
export const noOutbox: Outbox = { left: [], keep: () => () => undefined };
