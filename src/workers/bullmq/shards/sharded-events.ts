import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { Log } from '../../../core/lib/log.ts';
import { type Event, pipelineOfEvent } from '../../../core/notify/event.ts';
import type { Claim, LeftEvent, Outbox, UndeliveredEvents } from '../../../core/notify/outbox.ts';
import type { EventKeeping } from '../../queue/event-keeping.ts';
import type { DeliveryNote } from '../../queue/run-record.ts';
import { type Late, openLate } from './open-late.ts';
import type { ShardedQueue } from './sharded-queue.ts';
import { away, pipelineOfRun, shardMap } from './shards.ts';

export interface ShardedEventsOptions {
  clock: Clock;
  log: Log;
  names: readonly string[];
  /** Opens the event store of one Redis. */
  open: (name: string) => Promise<EventKeeping>;
}

/**
 * Stores each event on the Redis that has its run, so that one step in Redis covers both. Events without a
 * run are stored on the Redis of their pipeline. Throws the error of opening if no Redis answers, or if one
 * cannot be used.
 */
export async function shardedEvents({
  names,
  open,
  ...context
}: ShardedEventsOptions): Promise<EventKeeping> {
  const map = shardMap(names);
  const lates = new Map(
    names.map((name): [string, Late<EventKeeping>] => [
      name,
      openLate(() => open(name), { ...context, what: `${name} (events)` }),
    ]),
  );
  const opened = (): EventKeeping[] => [...lates.values()].flatMap((late) => late.get() ?? []);
  const close = async (): Promise<void> => {
    await Promise.all([...lates.values()].map((late) => late.stop()));
    await Promise.all(opened().map((one) => one.close()));
  };
  const tried = await Promise.allSettled([...lates.values()].map(({ tried }) => tried));
  const failed = tried.find((one) => one.status === 'rejected');
  if (failed !== undefined || opened().length === 0) {
    await close();
    throw failed === undefined ? away(names) : failed.reason;
  }

  /** null until the queue is open. */
  let queue: Pick<ShardedQueue, 'redisOf' | 'noteDelivery'> | null = null;
  let noting: Promise<void> = Promise.resolve();
  const redisOf = (runId: string | null, pipelineId: string | null): string =>
    queue?.redisOf(runId, pipelineId) ?? names[map.ownerOf(pipelineId ?? pipelineOfRun(runId ?? ''))] ?? '';
  const homeOf = (event: Event): Late<EventKeeping> => {
    const runId = 'run_id' in event.data ? (event.data.run_id ?? null) : null;
    return lates.get(redisOf(runId, pipelineOfEvent(event))) as Late<EventKeeping>;
  };
  const outbox: Outbox = {
    outlives: true,
    open: (take: (left: LeftEvent) => void) => {
      for (const late of lates.values()) late.onOpen((one) => one.outbox.open(take));
    },
    keep: (traced, ...told) => homeOf(traced.event).onOpen((one) => one.outbox.keep(traced, ...told)),
  };
  return {
    outbox,
    undelivered: undeliveredOver(names, [...lates.values()], homeOf),
    told: async (name) => {
      await (name === undefined ? undefined : lates.get(name)?.get()?.told());
    },
    note: (runId: string, note: DeliveryNote) => {
      const attached = queue;
      if (attached === null) {
        lates.get(redisOf(runId, null))?.onOpen((one) => one.note(runId, note));
        return;
      }
      // The run may be on the pipeline's former Redis. One at a time, to keep their order.
      noting = noting
        .then(() => attached.noteDelivery(runId, note))
        .catch((error: unknown) =>
          context.log.warn(
            { run_id: runId, event_id: note.eventId, err: error },
            'what became of a delivery could not be noted in its run',
          ),
        );
    },
    attach: (attached) => {
      if ('redisOf' in attached) queue = attached as ShardedQueue;
    },
    close: async () => {
      await noting;
      await close();
    },
  };
}

/** The undelivered events of all Redis servers, except unreachable ones. */
function undeliveredOver(
  names: readonly string[],
  lates: readonly Late<EventKeeping>[],
  homeOf: (event: Event) => Late<EventKeeping>,
): UndeliveredEvents {
  const each = async <T>(ask: (events: UndeliveredEvents) => Promise<T>): Promise<T[]> => {
    const answers = await Promise.all(
      lates.map(async (late) => {
        const one = late.get();
        if (one === null) return [];
        return ask(one.undelivered).then(
          (answer) => [answer],
          (error: unknown) => {
            if (hasCode(error, 'queue_unavailable')) return [];
            throw error;
          },
        );
      }),
    );
    const found = answers.flat();
    if (found.length === 0) throw away(names);
    return found;
  };
  return {
    // Any Redis will do, because `list` reads all of them. The event stays in its outbox until it is kept, so
    // this does not wait for an unreachable Redis.
    keep: async (notifierId, undelivered) => {
      const home =
        homeOf(undelivered.event).get() ?? lates.map((late) => late.get()).find((one) => one !== null);
      await home?.undelivered.keep(notifierId, undelivered);
    },
    list: async (notifierId) => {
      const all = (await each((events) => events.list(notifierId))).flat();
      // Each list is sorted; events of the same millisecond keep their order.
      return all.toSorted((a, b) => Date.parse(a.event.timestamp) - Date.parse(b.event.timestamp));
    },
    remove: async (notifierId, eventId) => {
      await each((events) => events.remove(notifierId, eventId));
    },
    counts: async () => {
      const total = new Map<string, number>();
      for (const counts of await each((events) => events.counts()))
        for (const [id, count] of counts) total.set(id, (total.get(id) ?? 0) + count);
      return total;
    },
    claim: async (notifierId) => {
      const claims: Claim[] = [];
      const release = async (): Promise<void> => {
        await Promise.all(claims.map((claim) => claim.release()));
      };
      try {
        await each(async (events) => void claims.push(await events.claim(notifierId)));
        return { release };
      } catch (error) {
        await release();
        throw error;
      }
    },
  };
}
