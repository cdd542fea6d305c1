import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { silentLog, type Log } from '../../core/lib/log.ts';
import type { EventKeeping } from '../queue/event-keeping.ts';
import { linkRedis } from './link.ts';
import { deliveryNotes } from './delivery-notes.ts';
import { defineScripts, type RunScript } from './scripts.ts';
import { eventOutbox } from './event-outbox.ts';
import { bullmqUndelivered } from './undelivered.ts';

export interface BullmqEventsOptions {
  clock: Clock;
  log: Log;
  /** Of Redis. Contains the password: never shown. */
  url: string;
  urlEnv: string;
  prefix: string;
  /** A host that was silent for so many milliseconds counts as dead: others deliver its events. */
  hostLifeMs: number;
  onDropped: (notifierId: string, count: number) => void;
}

/** How long the end waits for Redis, in milliseconds. */
const patienceMs = 5_000;

/**
 * The events of all hosts, in Redis. They have a connection of their own, which outlives that of the queue:
 * what is left is delivered, or given up, when the queue is closed already. Throws as `linkRedis` does.
 */
export async function bullmqEvents(options: BullmqEventsOptions): Promise<EventKeeping> {
  const { clock, log, prefix } = options;
  // The connection of the queue tells of outages, and of what is wrong with this Redis.
  const link = await linkRedis({ ...options, log: silentLog });
  const script = defineScripts(link.redis, prefix);
  const run: RunScript = (...call) => link.ask(() => script(...call));
  const undelivered = bullmqUndelivered({ ...options, link, run });
  const outbox = eventOutbox({ ...options, link, run });
  const noteDelivery = deliveryNotes(link, run, (key) => `${prefix}:${key}`);
  let noting: Promise<void> = Promise.resolve();
  return {
    undelivered: undelivered.events,
    outbox: outbox.outbox,
    told: () => outbox.settled(),
    // One after another: the order in which it happened.
    note: (runId, note) =>
      void (noting = noting
        .then(() => noteDelivery(runId, note))
        .catch((error: unknown) => {
          const isAway = hasCode(error, 'queue_unavailable');
          log[isAway ? 'warn' : 'error'](
            { run_id: runId, event_id: note.eventId, err: error },
            'what became of a delivery could not be noted in its run',
          );
        })),
    attach: () => undefined,
    close: async () => {
      const enough = new AbortController();
      const timer = clock.timeout(patienceMs, () => enough.abort());
      await undelivered.close(enough.signal);
      await outbox.close(enough.signal);
      await noting;
      timer.cancel();
      link.close();
    },
  };
}
