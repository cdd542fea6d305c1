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
import { isEvent, jsonOf } from './job-shape.ts';
import type { RedisLink } from './link.ts';
import { isObject } from './record-shape.ts';
import type { RunScript } from './scripts.ts';

interface BullmqUndeliveredOptions {
  clock: Clock;
  log: Log;
  link: Pick<RedisLink, 'ask' | 'redis'>;
  run: RunScript;
  prefix: string;
  onDropped: (notifierId: string, count: number) => void;
}

/** If a host dies during a redelivery, other hosts have to wait this long, in milliseconds. */
const claimLifeMs = 15_000;
const retryEveryMs = 500;

/**
 * Stores the undelivered events of all hosts in Redis. While Redis is unreachable, new events wait in memory,
 * and `close` keeps trying to store them until `signal` aborts.
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
      // Write one at a time, so that the order is preserved.
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
  // If Redis is unreachable for longer than this, two hosts may send the same event, with the same id.
  const heartbeat = clock.every(claimLifeMs / 3, () => void extend(claimLifeMs).catch(() => undefined));
  return {
    release: async () => {
      heartbeat.cancel();
      await extend(0).catch(() => undefined);
    },
  };
}

/** Parses an undelivered event. Returns an empty list if another program has overwritten it. */
function keptOf(text: string): UndeliveredEntry[] {
  const space = text.indexOf(' ');
  const [seq, undelivered] = [Number(text.slice(0, space)), jsonOf(text.slice(space + 1))];
  return isObject(undelivered) && isEvent(undelivered['event'])
    ? [{ seq, undelivered: undelivered as unknown as Undelivered }]
    : [];
}

/**
 * Implements `JobQueue.noteDelivery` in Redis. Failed deliveries are stored next to the record rather than in
 * it, because the worker overwrites the whole record on every save. Each save then merges them back in.
 *
 * @param at Maps a name used in the scripts to its Redis key.
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

// Formats the members of the record as JSON without the braces, for `withDeliveries` in `shared.lua`.
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
