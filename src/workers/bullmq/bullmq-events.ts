import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { type Log, silentLog } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { TracedEvent } from '../../core/notify/event.ts';
import type { Ended, KeptEvent, LeftEvent, Outbox } from '../../core/notify/outbox.ts';
import type { EventKeeping } from '../queue/event-keeping.ts';
import { bullmqUndelivered, deliveryNotes } from './deliveries.ts';
import { isEvent, isObject, jsonOf } from './job-shape.ts';
import { linkRedis, type RedisLink } from './link.ts';
import { keyRoot, type RedisServer } from './redis-client.ts';
import { defineScripts, type RunScript } from './scripts.ts';

interface BullmqEventsOptions extends RedisServer {
  clock: Clock;
  log: Log;
  prefix: string;
  /** A host that is silent for this many milliseconds counts as dead: other hosts deliver its events. */
  hostLifeMs: number;
  onDropped: (notifierId: string, count: number) => void;
}

/** How long closing waits for Redis, in milliseconds. */
const patienceMs = 5_000;

/**
 * The events of all hosts, in Redis. The events have their own connection, because the last ones are
 * delivered or given up after the queue is closed. Throws as `linkRedis` does.
 */
export async function bullmqEvents(options: BullmqEventsOptions): Promise<EventKeeping> {
  const { clock, log } = options;
  const prefix = keyRoot(options.prefix, options);
  // The queue's connection logs outages and problems of this Redis.
  const link = await linkRedis({ ...options, log: silentLog });
  const script = defineScripts(link.redis, prefix);
  const run: RunScript = (...call) => link.ask(() => script(...call));
  const undelivered = bullmqUndelivered({ ...options, prefix, link, run });
  const outbox = eventOutbox({ ...options, link, run });
  const noteDelivery = deliveryNotes(link, run, (key) => `${prefix}:${key}`);
  let noting: Promise<void> = Promise.resolve();
  return {
    undelivered: undelivered.events,
    outbox: outbox.outbox,
    told: () => outbox.settled(),
    // One at a time, to keep their order.
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

interface EventOutboxOptions {
  clock: Clock;
  log: Log;
  link: Pick<RedisLink, 'upForMs'>;
  run: RunScript;
  /** A host that is silent for this many milliseconds counts as dead: other hosts deliver its events. */
  hostLifeMs: number;
}

interface EventOutbox {
  outbox: Outbox;
  /** Resolves once Redis has all events so far. Never rejects. Waits while Redis is unreachable. */
  settled(): Promise<void>;
  /** Leaves this host's undelivered events to the other hosts. Waits for Redis until `signal` aborts. */
  close(signal: AbortSignal): Promise<void>;
}

const longestTickMs = 1_000;
const retryEveryMs = 500;
/** Maximum number of events taken from dead hosts per call. */
const maxTaken = 200;

/**
 * The undelivered events of all hosts, in Redis. An event of a run is stored before it is sent, and before
 * the end of its run is recorded. Therefore neither is lost if the process dies, and a process that repeats
 * the run does not report the event twice. Each host delivers its own events. Once a host is silent or has
 * ended, the first other host to look delivers the rest.
 */
function eventOutbox({ clock, log, link, run, hostLifeMs }: EventOutboxOptions): EventOutbox {
  const host = randomUUID();
  const closing = new AbortController();
  /** The deliveries that this process handles, by notifier and event. */
  const known = new Set<string>();
  let telling: Promise<void> = Promise.resolve();
  let ending: Promise<void> = Promise.resolve();
  let ticking: Promise<void> = Promise.resolve();
  let hasMissed = false;

  /** Repeats the call until Redis answers; undefined if this process ends first. */
  const insist = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!hasCode(error, 'queue_unavailable')) throw error;
        if (closing.signal.aborted) return undefined;
        await clock.sleep(retryEveryMs, closing.signal).catch(() => undefined);
      }
    }
  };

  const logDefect = (error: unknown): void => log.error({ err: error }, 'redis refused an event');

  const endOf =
    (field: string): Ended =>
    (kept) => {
      ending = ending.then(async () => {
        await kept;
        await insist(() => run('endEvent', { field })).catch(logDefect);
        known.delete(field);
      });
    };

  const tell = async (
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, ended: Ended) => void,
  ): Promise<void> => {
    const { event } = traced;
    const runId = 'run_id' in event.data ? (event.data.run_id ?? '') : '';
    const call = randomUUID();
    const texts = notifierIds.flatMap((notifierId) => {
      const kept: KeptEvent = { notifierId, ...traced };
      return [notifierId, JSON.stringify(kept)];
    });
    for (const notifierId of notifierIds) known.add(fieldOf(notifierId, event.id));
    const args = { host, lifeMs: hostLifeMs, runId, event: event.id, call };
    // If a defect prevents storing the event, it is still delivered.
    const answer = await insist(() => run('tellEvent', args, texts)).catch((error: unknown) => {
      logDefect(error);
      return 1;
    });
    for (const notifierId of notifierIds) {
      const field = fieldOf(notifierId, event.id);
      if (answer === 1) deliver(notifierId, endOf(field));
      else known.delete(field);
    }
  };

  const look = async (take: (left: LeftEvent) => void): Promise<void> => {
    // After an outage of Redis for all hosts, live hosts need time to report before their events are taken.
    const limit = link.upForMs() < hostLifeMs ? 0 : maxTaken;
    const own = Number(hasMissed);
    hasMissed = true;
    const found = (await run('takeEvents', { host, lifeMs: hostLifeMs, limit, own })) as string[];
    hasMissed = false;
    for (let index = 0; index + 1 < found.length; index += 2) {
      const [field = '', text = ''] = found.slice(index, index + 2);
      if (known.has(field)) continue;
      known.add(field);
      const kept = keptEventOf(text);
      if (kept !== null) take({ ...kept, ended: endOf(field) });
      else {
        log.error({ event: field.slice(0, 200) }, 'another program has replaced an event in redis');
        endOf(field)();
      }
    }
  };

  const tick = async (take: (left: LeftEvent) => void): Promise<void> => {
    while (!closing.signal.aborted) {
      await look(take).catch((error: unknown) => {
        if (!hasCode(error, 'queue_unavailable')) logDefect(error);
      });
      const pauseMs = Math.min(hostLifeMs / 4, longestTickMs);
      await clock.sleep(pauseMs, closing.signal).catch(() => undefined);
    }
  };

  return {
    outbox: {
      outlives: true,
      open: (take) => void (ticking = tick(take)),
      // One at a time, to keep their order.
      keep: (...told) => void (telling = telling.then(() => tell(...told))),
    },
    settled: async () => {
      await telling;
    },
    close: async (signal) => {
      const release = onAbort(signal, () => closing.abort());
      await ending;
      release();
      closing.abort();
      await Promise.all([ticking, telling]);
      await run('leaveEvents', { host }).catch(() => undefined);
    },
  };
}

/** null if another program has replaced the event. */
function keptEventOf(text: string): KeptEvent | null {
  const value = jsonOf(text);
  const isRight = isObject(value) && typeof value['notifierId'] === 'string' && isEvent(value['event']);
  return isRight ? (value as unknown as KeptEvent) : null;
}

function fieldOf(notifierId: string, eventId: string): string {
  return `${notifierId} ${eventId}`;
}
