import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { type Log, silentLog } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { TracedEvent } from '../../core/notify/event.ts';
import type { Ended, KeptEvent, LeftEvent, Outbox } from '../../core/notify/outbox.ts';
import type { EventKeeping } from '../queue/event-keeping.ts';
import { bullmqUndelivered, deliveryNotes } from './deliveries.ts';
import { linkRedis, type RedisLink } from './link.ts';
import { defineScripts, type RunScript } from './scripts.ts';

interface BullmqEventsOptions {
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

interface EventOutboxOptions {
  clock: Clock;
  log: Log;
  link: Pick<RedisLink, 'upForMs'>;
  run: RunScript;
  /** A host that was silent for so many milliseconds counts as dead: others deliver its events. */
  hostLifeMs: number;
}

interface EventOutbox {
  outbox: Outbox;
  /** Resolves once Redis has all that was told until now. Never rejects; while Redis is away it waits. */
  settled(): Promise<void>;
  /** What this host has not delivered is for others from now on. Waits for Redis until `signal` aborts. */
  close(signal: AbortSignal): Promise<void>;
}

const longestTickMs = 1_000;
const retryEveryMs = 500;
/** Events of dead hosts that are taken at once. */
const maxTaken = 200;

/**
 * The events of all hosts that are not delivered yet, in Redis. An event of a run is kept there before it is
 * sent, and before the end of its run is recorded: so neither is lost with the process that had it, and
 * another one that does the run again does not tell it twice. Each host delivers what it has told; once it is
 * silent, or has ended, whichever host looks first delivers what is left.
 */
function eventOutbox({ clock, log, link, run, hostLifeMs }: EventOutboxOptions): EventOutbox {
  const host = randomUUID();
  const closing = new AbortController();
  /** What this process sees to, by notifier and event. */
  const known = new Set<string>();
  let telling: Promise<void> = Promise.resolve();
  let ending: Promise<void> = Promise.resolve();
  let ticking: Promise<void> = Promise.resolve();
  let hasMissed = false;

  /** Repeats the call until Redis answers; undefined if this process ends before. */
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

  const logDefect = (error: unknown): void =>
    log.error({ err: error }, 'redis refused what it was told of an event');

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
    // What cannot be kept, for a defect, is delivered at least.
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
    // After Redis was away for everybody, others show that they live before anybody takes what is theirs.
    const limit = link.upForMs() < hostLifeMs ? 0 : maxTaken;
    const own = Number(hasMissed);
    hasMissed = true;
    const found = (await run('takeEvents', { host, lifeMs: hostLifeMs, limit, own })) as string[];
    hasMissed = false;
    for (let index = 0; index + 1 < found.length; index += 2) {
      const [field = '', text = ''] = found.slice(index, index + 2);
      if (known.has(field)) continue;
      known.add(field);
      // Only `tell` writes these values.
      take({ ...(JSON.parse(text) as KeptEvent), ended: endOf(field) });
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
      // One after another: the order in which they happened.
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

function fieldOf(notifierId: string, eventId: string): string {
  return `${notifierId} ${eventId}`;
}
