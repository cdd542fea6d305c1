import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import {
  inOrder,
  maxUndelivered,
  redeliveryRunning,
  type Undelivered,
  type UndeliveredEntry,
  type UndeliveredEvents,
} from '../../core/notify/outbox.ts';
import {
  type DeliveryNote,
  type FailedDeliveries,
  type FailedDelivery,
  noFailedDeliveries,
  withNote,
} from '../queue/run-record.ts';
import { isEvent, isObject, jsonOf } from './job-shape.ts';
import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

interface BullmqUndeliveredOptions {
  clock: Clock;
  log: Log;
  link: Pick<RedisLink, 'ask' | 'redis'>;
  run: RunScript;
  prefix: string;
  onDropped: (notifierId: string, count: number) => void;
}

/** How long a host that dies during a redelivery blocks the other hosts, in milliseconds. */
const claimLifeMs = 15_000;
const retryEveryMs = 500;

/**
 * The undelivered events of all hosts, in Redis. While Redis is unreachable, new events wait in memory.
 * `close` waits for them until `signal` aborts.
 */
export function bullmqUndelivered({ clock, log, link, run, prefix, onDropped }: BullmqUndeliveredOptions): {
  events: UndeliveredEvents;
  close: (signal: AbortSignal) => Promise<void>;
} {
  const closing = new AbortController();
  let writing: Promise<void> = Promise.resolve();

  const write = async (notifierId: string, undelivered: Undelivered): Promise<void> => {
    const { event } = undelivered;
    for (;;) {
      try {
        const gone = await run('keepUndelivered', {
          notifier: notifierId,
          event: event.id,
          happened: Date.parse(event.timestamp),
          undelivered: JSON.stringify(undelivered),
          limit: maxUndelivered,
        });
        if (Number(gone) > 0) onDropped(notifierId, Number(gone));
        return;
      } catch (error) {
        if (!hasCode(error, 'queue_unavailable') || closing.signal.aborted) {
          const fields = { notifier: notifierId, event_id: event.id, event_type: event.type, err: error };
          log.error(fields, 'an undelivered event could not be kept');
          return;
        }
        await clock.sleep(retryEveryMs, closing.signal).catch(() => undefined);
      }
    }
  };

  return {
    events: {
      // Events are written one at a time to keep their order.
      keep: (notifierId, undelivered) => (writing = writing.then(() => write(notifierId, undelivered))),
      list: async (notifierId) => {
        const found = await link.ask(() => link.redis.hvals(`${prefix}:undelivered:${notifierId}`));
        return found
          .flatMap(keptOf)
          .sort(inOrder)
          .map(({ undelivered }) => undelivered);
      },
      remove: async (notifier, event) => {
        await run('removeUndelivered', { notifier, event });
      },
      counts: async () => {
        const flat = (await run('countUndelivered', {})) as (string | number)[];
        return new Map(
          flat.flatMap((one, index) => (index % 2 === 0 ? [[String(one), Number(flat[index + 1])]] : [])),
        );
      },
      claim: (notifierId) => claim(notifierId, run, clock),
    },
    close: async (signal) => {
      const release = onAbort(signal, () => closing.abort());
      await writing;
      release();
    },
  };
}

async function claim(notifier: string, run: RunScript, clock: Clock): ReturnType<UndeliveredEvents['claim']> {
  const owner = randomUUID();
  const extend = async (lifeMs: number): Promise<boolean> =>
    (await run('claimUndelivered', { notifier, owner, lifeMs })) === 1;
  if (!(await extend(claimLifeMs))) throw redeliveryRunning(notifier);
  // If Redis is unreachable for longer than this, two hosts may send the same event with the same id.
  const heartbeat = clock.every(claimLifeMs / 3, () => void extend(claimLifeMs).catch(() => undefined));
  return {
    release: async () => {
      heartbeat.cancel();
      await extend(0).catch(() => undefined);
    },
  };
}

/** Returns an empty list if another program has replaced the value. */
function keptOf(text: string): UndeliveredEntry[] {
  const space = text.indexOf(' ');
  const [seq, undelivered] = [Number(text.slice(0, space)), jsonOf(text.slice(space + 1))];
  return isObject(undelivered) && isEvent(undelivered['event'])
    ? [{ seq, undelivered: undelivered as unknown as Undelivered }]
    : [];
}

/**
 * Implements `JobQueue.noteDelivery` in Redis. The deliveries are stored next to the record, because the
 * worker overwrites the whole record. Each save of the record merges them in.
 *
 * @param at Returns the Redis key of a name.
 */
export function deliveryNotes(
  { ask, redis }: Pick<RedisLink, 'ask' | 'redis'>,
  run: RunScript,
  at: (key: string) => string,
): (runId: string, note: DeliveryNote) => Promise<void> {
  return async (runId, note) => {
    for (;;) {
      const before = (await ask(() => redis.hget(at(`run:${runId}`), 'deliveries'))) ?? '';
      const next = withNote(before === '' ? noFailedDeliveries : membersOf(before), note);
      if (next === null) return;
      if ((await run('note', { runId, before, after: textOf(next) })) === 1) return;
    }
  };
}

// Returns JSON members of a record, without the braces. `withDeliveries` in `shared.lua` inserts them.
function textOf({ failed_deliveries, failed_deliveries_omitted }: FailedDeliveries): string {
  return JSON.stringify({ failed_deliveries, failed_deliveries_omitted }).slice(1, -1);
}

function membersOf(text: string): FailedDeliveries {
  const value = jsonOf(`{${text}}`);
  const list = isObject(value) ? value['failed_deliveries'] : null;
  if (!Array.isArray(list) || !list.every(isObject)) return noFailedDeliveries;
  const omitted = Number(isObject(value) && value['failed_deliveries_omitted']);
  return { failed_deliveries: list as unknown as FailedDelivery[], failed_deliveries_omitted: omitted || 0 };
}
