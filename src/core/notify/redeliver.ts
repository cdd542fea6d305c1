import type { Clock } from '../clock.ts';
import type { Delivery } from './deliver.ts';
import type { TracedEvent } from './event.ts';
import { traceOf } from '../tracing/trace-context.ts';
import type { UndeliveredEvents } from './undelivered.ts';

/** What came of sending undelivered events again. */
export interface Redelivery {
  delivered: number;
  /** Those that were tried and are kept again, in order. */
  failed: { eventId: string; type: string; reason: string }[];
  /** How many events are undelivered now. */
  left: number;
  ended: RedeliveryEnd;
}

/**
 * Why it ended. `all_tried`: there was nothing more; `failing`: the receiver is away, so the rest was not
 * tried; `time_over`: it has taken `longestMs`, and there is more; `stopping`: process or notifier end.
 */
export type RedeliveryEnd = 'all_tried' | 'failing' | 'time_over' | 'stopping';

export interface RedeliverOptions {
  notifierId: string;
  undelivered: UndeliveredEvents;
  clock: Clock;
  /** Delivers one event, with all its tries, in the trace in which it happened. */
  send: (traced: TracedEvent) => Promise<Delivery>;
  /** Whether to begin with another event. */
  mayGoOn: () => boolean;
}

/** After so many milliseconds no other event is begun: somebody waits for the answer. */
const longestMs = 20_000;

/**
 * Sends what is undelivered again, one event after another in the order in which they happened. One that is
 * delivered is kept no more; one that is not stays in its place. Where the receiver refuses an event, the
 * next is tried; where it is away, that is the end. An event is forgotten only once it is delivered, so it
 * comes twice if the process ends in between. Throws `redelivery_running`, and `queue_unavailable` where the
 * events cannot be reached.
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
    if (clock.monotonic() - began > longestMs) return { ...done, ended: 'time_over' };
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
