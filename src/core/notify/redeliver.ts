import type { Clock } from '../lib/clock.ts';
import { traceOf } from '../tracing/trace-context.ts';
import type { Delivery } from './deliver.ts';
import type { TracedEvent } from './event.ts';
import type { UndeliveredEvents } from './undelivered.ts';

/*
 * Sends undelivered events again.
 */

export interface Redelivery {
  delivered: number;
  /** The events that failed again, in order. They remain undelivered. */
  failed: { eventId: string; type: string; reason: string }[];
  /** The number of events that are undelivered now. */
  left: number;
  ended: RedeliveryEnd;
}

/**
 * Why the redelivery ended.
 *
 * - `all_tried`: every event was tried.
 * - `failing`: the receiver is unreachable, so the remaining events were skipped.
 * - `time_over`: `maxDurationMs` have passed, and there are more events.
 * - `stopping`: the process or the notifier is stopping.
 */
export type RedeliveryEnd = 'all_tried' | 'failing' | 'time_over' | 'stopping';

export interface RedeliverOptions {
  notifierId: string;
  undelivered: UndeliveredEvents;
  clock: Clock;
  /** Delivers one event with the usual tries, in its original trace. */
  send: (traced: TracedEvent) => Promise<Delivery>;
  /** Whether to start another event. */
  mayGoOn: () => boolean;
}

/** No event starts after this time, because a client waits for the response. */
const maxDurationMs = 20_000;

/**
 * Sends the undelivered events again, one after another in the order in which they happened. Delivered events
 * are removed. Events that fail keep their place. If the receiver rejects an event, the next one is tried. If
 * the receiver is unreachable, the redelivery ends. An event is removed only after its delivery, so it may be
 * delivered twice if the process ends in between. Throws `redelivery_running`, and `queue_unavailable` if the
 * events cannot be read.
 */
export async function redeliver(options: RedeliverOptions): Promise<Redelivery> {
  const { notifierId, undelivered } = options;
  const claim = await undelivered.claim(notifierId);
  try {
    const { delivered, failed, ended } = await sendAll(options);
    const left = (await undelivered.counts()).get(notifierId) ?? 0;
    return { delivered, failed, left, ended };
  } finally {
    await claim.release();
  }
}

async function sendAll({
  notifierId,
  undelivered,
  clock,
  send,
  mayGoOn,
}: RedeliverOptions): Promise<Omit<Redelivery, 'left'>> {
  const began = clock.monotonic();
  const done: Omit<Redelivery, 'left' | 'ended'> = { delivered: 0, failed: [] };
  for (const one of await undelivered.list(notifierId)) {
    const { event } = one;
    if (!mayGoOn()) return { ...done, ended: 'stopping' };
    if (clock.monotonic() - began > maxDurationMs) return { ...done, ended: 'time_over' };
    const delivery = await send({ event, ...traceOf(one) });
    if (delivery.delivered) {
      await undelivered.remove(notifierId, event.id);
      done.delivered += 1;
      continue;
    }
    const reason = delivery.reason ?? 'unknown';
    const tries = one.tries + delivery.tries;
    const givenUpAt = clock.now().toISOString();
    await undelivered.keep(notifierId, { ...one, tries, reason, givenUpAt });
    done.failed.push({ eventId: event.id, type: event.type, reason });
    if (delivery.isAway || delivery.gone) return { ...done, ended: mayGoOn() ? 'failing' : 'stopping' };
  }
  return { ...done, ended: 'all_tried' };
}
