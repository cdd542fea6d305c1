import type { Event } from './event.ts';

/** An event for one notifier. Plain data. */
export interface KeptEvent {
  notifierId: string;
  event: Event;
  /** The span in which it happened, if it was traced. */
  traceparent?: string | undefined;
}

/** Keeps events beyond the life of the process, until their delivery has ended one way or the other. */
export interface Outbox {
  /** What earlier processes left, oldest first. */
  readonly left: readonly (KeptEvent & { ended: () => void })[];
  /** Keeps an event for a notifier; the returned function is called when its delivery has ended. */
  keep(kept: KeptEvent): () => void;
}

/** Keeps nothing: what is not delivered ends with the process. */
export const noOutbox: Outbox = { left: [], keep: () => () => undefined };
