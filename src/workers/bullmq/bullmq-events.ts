import { randomUUID } from 'node:crypto';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { isRecord } from '../../core/lib/json-document.ts';
import { type Log, silentLog } from '../../core/lib/log.ts';
import type { TracedEvent } from '../../core/notify/event.ts';
import type { AbandonedEvent, OnDeliveryEnd, Outbox, OutboxEvent } from '../../core/notify/outbox.ts';
import type { EventStore } from '../queue/run-events.ts';
import { noteDelivery, RedisUndelivered } from './deliveries.ts';
import { RedisLink } from './link.ts';
import type { RedisServer } from './redis-client.ts';
import { pairsOf } from './scripts.ts';
import { isEvent, jsonOf } from './shapes.ts';

interface BullmqEventsOptions extends RedisServer {
  clock: Clock;
  log: Log;
  /**
   * A host that does not report for this many milliseconds is considered dead, and other hosts deliver its
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
  const { clock, log, hostLifeMs, onDropped, ...server } = options;
  // Outages are already logged by the queue's own connection.
  const link = await RedisLink.open({ ...server, clock, log: silentLog });
  const closing = new AbortController();
  const undelivered = new RedisUndelivered({ link, log, signal: closing.signal, onDropped });
  const outbox = new EventOutbox({ link, log, hostLifeMs, closing });
  let noting: Promise<void> = Promise.resolve();
  return {
    undelivered,
    outbox,
    flushed: () => outbox.settled(),
    // Write one at a time, so that the order is preserved.
    note: (runId, note) =>
      void (noting = noting
        .then(() => noteDelivery(link, runId, note))
        .catch((error: unknown) => {
          const isUnavailable = hasCode(error, 'queue_unavailable');
          log[isUnavailable ? 'warn' : 'error'](
            { run_id: runId, event_id: note.eventId, err: error },
            'the result of a delivery could not be recorded in its run',
          );
        })),
    attach: () => undefined,
    close: async () => {
      const timer = clock.timeout(closeTimeoutMs, () => closing.abort());
      await undelivered.settled();
      await outbox.close();
      await noting;
      timer.cancel();
      link.close();
    },
  };
}

interface EventOutboxOptions extends Pick<BullmqEventsOptions, 'log' | 'hostLifeMs'> {
  link: RedisLink;
  /** Once it aborts, calls to Redis are no longer repeated. */
  closing: AbortController;
}

const maxPollMs = 1_000;
/** Maximum number of events to take over from dead hosts in one call. */
const maxTaken = 200;

/**
 * Stores events in Redis until they are delivered. Each event of a run is stored before it is sent, and
 * before the run is recorded as ended. That way a crash cannot lose either of them, and if another process
 * repeats the run, it does not send the event a second time. Each host delivers its own events. If a host
 * dies or shuts down, the first host to notice delivers the rest.
 */
class EventOutbox implements Outbox {
  readonly isDurable = true;
  readonly #options: EventOutboxOptions;
  readonly #host = randomUUID();
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

  open(take: (event: AbandonedEvent) => void): void {
    this.#polling = this.#poll(take);
  }

  /** Stores the event. Writes happen one at a time, so that the order is preserved. */
  store(...event: Parameters<Outbox['store']>): void {
    this.#storing = this.#storing.then(() => this.#store(...event));
  }

  /**
   * Resolves once every event so far is stored in Redis, however long Redis is unreachable. Never rejects.
   */
  async settled(): Promise<void> {
    await this.#storing;
  }

  /** Hands this host's undelivered events over to the other hosts. */
  async close(): Promise<void> {
    const { link, closing } = this.#options;
    await this.#ending;
    closing.abort();
    await Promise.all([this.#polling, this.#storing]);
    await link.run('events/leave', { host: this.#host }).catch(() => undefined);
  }

  async #store(
    traced: TracedEvent,
    notifierIds: readonly string[],
    deliver: (notifierId: string, onEnd: OnDeliveryEnd) => void,
  ): Promise<void> {
    const { link, closing, hostLifeMs: lifeMs } = this.#options;
    const { event } = traced;
    const runId = 'run_id' in event.data ? (event.data.run_id ?? '') : '';
    const args = { host: this.#host, lifeMs, runId, event: event.id, call: randomUUID() };
    const texts = notifierIds.flatMap((notifierId) => {
      const outboxEvent: OutboxEvent = { notifierId, ...traced };
      return [notifierId, JSON.stringify(outboxEvent)];
    });
    const fieldOf = (notifierId: string): string => `${notifierId} ${event.id}`;
    for (const notifierId of notifierIds) this.#known.add(fieldOf(notifierId));
    const isStored = await link
      .untilAvailable(closing.signal, () => link.run('events/tell', args, texts))
      .then((answer) => answer === 1)
      // Deliver the event even if a bug kept us from storing it.
      .catch((error: unknown) => this.#isDefect(error));
    for (const notifierId of notifierIds) {
      const field = fieldOf(notifierId);
      if (isStored) deliver(notifierId, this.#endOf(field));
      else this.#known.delete(field);
    }
  }

  #endOf(field: string): OnDeliveryEnd {
    const { link, closing } = this.#options;
    return (stored) => {
      this.#ending = this.#ending.then(async () => {
        await stored;
        await link
          .untilAvailable(closing.signal, () => link.run('events/end', { field }))
          .catch((error: unknown) => this.#isDefect(error));
        this.#known.delete(field);
      });
    };
  }

  async #poll(take: (event: AbandonedEvent) => void): Promise<void> {
    const { link, closing, hostLifeMs } = this.#options;
    const pauseMs = Math.min(hostLifeMs / 4, maxPollMs);
    while (!closing.signal.aborted) {
      await this.#takeLeft(take).catch((error: unknown) => this.#isDefect(error));
      await link.clock.sleep(pauseMs, closing.signal).catch(() => undefined);
    }
  }

  async #takeLeft(take: (event: AbandonedEvent) => void): Promise<void> {
    const { link, log, hostLifeMs: lifeMs } = this.#options;
    // After an outage that cut off every host, give the live ones time to report in before taking over.
    const limit = link.upForMs() < lifeMs ? 0 : maxTaken;
    const own = Number(this.#hasMissed);
    this.#hasMissed = true;
    const found = await link.list('events/take', { host: this.#host, lifeMs, limit, own });
    this.#hasMissed = false;
    for (const [field, text] of pairsOf(found)) {
      if (this.#known.has(field)) continue;
      this.#known.add(field);
      const event = keptEventOf(text);
      if (event !== null) take({ ...event, onEnd: this.#endOf(field) });
      else {
        log.error({ event: field.slice(0, 200) }, 'another program has replaced an event in redis');
        this.#endOf(field)();
      }
    }
  }

  /** Logs an error, unless Redis is unreachable. Returns true if it was logged. */
  #isDefect(error: unknown): boolean {
    if (hasCode(error, 'queue_unavailable')) return false;
    this.#options.log.error({ err: error }, 'redis refused an event');
    return true;
  }
}

/** Parses a stored event. Returns null if another program has overwritten it. */
function keptEventOf(text: string): OutboxEvent | null {
  const value = jsonOf(text);
  const isValid = isRecord(value) && typeof value['notifierId'] === 'string' && isEvent(value['event']);
  return isValid ? (value as unknown as OutboxEvent) : null;
}
