import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { type Log, silentLog } from '../../core/lib/log.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import type { TracedEvent } from '../../core/notify/event.ts';
import type { AbandonedEvent, Ended, Outbox, OutboxEvent } from '../../core/notify/outbox.ts';
import type { EventStore } from '../queue/run-events.ts';
import { bullmqUndelivered, deliveryNotes } from './deliveries.ts';
import { isEvent, jsonOf } from './job-shape.ts';
import { RedisLink } from './link.ts';
import { isObject } from './record-shape.ts';
import { keyRoot, type RedisServer } from './redis-client.ts';
import { defineScripts, type RunScript } from './scripts.ts';

interface BullmqEventsOptions extends RedisServer {
  clock: Clock;
  log: Log;
  prefix: string;
  /**
   * A host that doesn't report for this many milliseconds is considered dead, and other hosts deliver its
   * events.
   */
  hostLifeMs: number;
  onDropped: (notifierId: string, count: number) => void;
}

/** The time that `close` waits for Redis, in milliseconds. */
const closeTimeoutMs = 5_000;

/**
 * Opens the event outbox and the list of undelivered events, which all hosts share through Redis. They have
 * their own connection because the last events are still being sent when the queue has already been closed.
 * Throws the same errors as `RedisLink.open`.
 */
export async function bullmqEvents(options: BullmqEventsOptions): Promise<EventStore> {
  const { clock, log } = options;
  const prefix = keyRoot(options.prefix, options);
  // Outages are already logged by the queue's own connection.
  const link = await RedisLink.open({ ...options, log: silentLog });
  const script = defineScripts(link.redis, prefix);
  const run: RunScript = (...call) => link.ask(() => script(...call));
  const undelivered = bullmqUndelivered({ ...options, prefix, link, run });
  const outbox = new EventOutbox({ ...options, link, run });
  const noteDelivery = deliveryNotes(link, run, (key) => `${prefix}:${key}`);
  let noting: Promise<void> = Promise.resolve();
  return {
    undelivered: undelivered.events,
    outbox,
    flushed: () => outbox.settled(),
    // Write one at a time, so that the order is preserved.
    note: (runId, note) =>
      void (noting = noting
        .then(() => noteDelivery(runId, note))
        .catch((error: unknown) => {
          const isUnavailable = hasCode(error, 'queue_unavailable');
          log[isUnavailable ? 'warn' : 'error'](
            { run_id: runId, event_id: note.eventId, err: error },
            'the result of a delivery could not be recorded in its run',
          );
        })),
    attach: () => undefined,
    close: async () => {
      const enough = new AbortController();
      const timer = clock.timeout(closeTimeoutMs, () => enough.abort());
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
  /**
   * A host that doesn't report for this many milliseconds is considered dead, and other hosts deliver its
   * events.
   */
  hostLifeMs: number;
}

const maxPollMs = 1_000;
const retryEveryMs = 500;
/** Maximum number of events to take over from dead hosts in one call. */
const maxTaken = 200;

/**
 * Stores events in Redis until they are delivered. Each event of a run is stored before it is sent, and
 * before the run is recorded as ended. That way a crash can't lose either of them, and if another process
 * repeats the run, it doesn't send the event a second time. Each host delivers its own events. If a host dies
 * or shuts down, the first host to notice delivers the rest.
 */
class EventOutbox implements Outbox {
  readonly outlives = true;
  readonly #options: EventOutboxOptions;
  readonly #host = randomUUID();
  readonly #closing = new AbortController();
  /** The deliveries this process is responsible for, by notifier and event. */
  readonly #known = new Set<string>();
  #storing: Promise<void> = Promise.resolve();
  #ending: Promise<void> = Promise.resolve();
  #polling: Promise<void> = Promise.resolve();
  /** True if we never got the response to the last poll. It may have assigned events to this host. */
  #hasMissed = false;

  constructor(options: EventOutboxOptions) {
    this.#options = options;
  }

  open(take: (left: AbandonedEvent) => void): void {
    this.#polling = this.#poll(take);
  }

  /** Stores the event. Writes happen one at a time, so that the order is preserved. */
  keep(...event: Parameters<Outbox['keep']>): void {
    this.#storing = this.#storing.then(() => this.#store(...event));
  }

  /**
   * Resolves once every event so far is stored in Redis, however long Redis is unreachable. Never rejects.
   */
  async settled(): Promise<void> {
    await this.#storing;
  }

  /** Hands this host's undelivered events over to the other hosts. Waits for Redis until `signal` aborts. */
  async close(signal: AbortSignal): Promise<void> {
    const release = onAbort(signal, () => this.#closing.abort());
    await this.#ending;
    release();
    this.#closing.abort();
    await Promise.all([this.#polling, this.#storing]);
    await this.#options.run('leaveEvents', { host: this.#host }).catch(() => undefined);
  }

  async #store(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, ended: Ended) => void,
  ): Promise<void> {
    const { event } = traced;
    const { run, hostLifeMs: lifeMs } = this.#options;
    const runId = 'run_id' in event.data ? (event.data.run_id ?? '') : '';
    const args = { host: this.#host, lifeMs, runId, event: event.id, call: randomUUID() };
    const texts = notifierIds.flatMap((notifierId) => {
      const kept: OutboxEvent = { notifierId, ...traced };
      return [notifierId, JSON.stringify(kept)];
    });
    for (const notifierId of notifierIds) this.#known.add(fieldOf(notifierId, event.id));
    // Deliver the event even if a bug kept us from storing it.
    const answer = await this.#untilAnswered(() => run('tellEvent', args, texts)).catch((error: unknown) => {
      this.#logDefect(error);
      return 1;
    });
    for (const notifierId of notifierIds) {
      const field = fieldOf(notifierId, event.id);
      if (answer === 1) deliver(notifierId, this.#endOf(field));
      else this.#known.delete(field);
    }
  }

  #endOf(field: string): Ended {
    return (kept) => {
      this.#ending = this.#ending.then(async () => {
        await kept;
        await this.#untilAnswered(() => this.#options.run('endEvent', { field })).catch((error: unknown) =>
          this.#logDefect(error),
        );
        this.#known.delete(field);
      });
    };
  }

  async #poll(take: (left: AbandonedEvent) => void): Promise<void> {
    const { clock, hostLifeMs } = this.#options;
    while (!this.#closing.signal.aborted) {
      await this.#takeLeft(take).catch((error: unknown) => {
        if (!hasCode(error, 'queue_unavailable')) this.#logDefect(error);
      });
      const pauseMs = Math.min(hostLifeMs / 4, maxPollMs);
      await clock.sleep(pauseMs, this.#closing.signal).catch(() => undefined);
    }
  }

  async #takeLeft(take: (left: AbandonedEvent) => void): Promise<void> {
    const { link, log, run, hostLifeMs } = this.#options;
    // After an outage that cut off every host, give the live ones time to report in before taking over.
    const limit = link.upForMs() < hostLifeMs ? 0 : maxTaken;
    const own = Number(this.#hasMissed);
    this.#hasMissed = true;
    const found = (await run('takeEvents', {
      host: this.#host,
      lifeMs: hostLifeMs,
      limit,
      own,
    })) as string[];
    this.#hasMissed = false;
    for (let index = 0; index + 1 < found.length; index += 2) {
      const [field = '', text = ''] = found.slice(index, index + 2);
      if (this.#known.has(field)) continue;
      this.#known.add(field);
      const kept = keptEventOf(text);
      if (kept !== null) take({ ...kept, ended: this.#endOf(field) });
      else {
        log.error({ event: field.slice(0, 200) }, 'another program has replaced an event in redis');
        this.#endOf(field)();
      }
    }
  }

  /** Retries the call until Redis responds. Resolves with undefined if this process shuts down first. */
  async #untilAnswered<T>(work: () => Promise<T>): Promise<T | undefined> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!hasCode(error, 'queue_unavailable')) throw error;
        if (this.#closing.signal.aborted) return undefined;
        await this.#options.clock.sleep(retryEveryMs, this.#closing.signal).catch(() => undefined);
      }
    }
  }

  #logDefect(error: unknown): void {
    this.#options.log.error({ err: error }, 'redis refused an event');
  }
}

/** Parses a stored event. Returns null if another program has overwritten it. */
function keptEventOf(text: string): OutboxEvent | null {
  const value = jsonOf(text);
  const isValid = isObject(value) && typeof value['notifierId'] === 'string' && isEvent(value['event']);
  return isValid ? (value as unknown as OutboxEvent) : null;
}

function fieldOf(notifierId: string, eventId: string): string {
  return `${notifierId} ${eventId}`;
}
