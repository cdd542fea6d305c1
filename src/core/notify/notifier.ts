import type { Timer } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { onAbort } from '../lib/on-abort.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { redeliver, type Redelivery } from './deliver.ts';
import { DeliveryQueue, type DeliveryQueueOptions, failedDelivery, toUndelivered } from './delivery-queue.ts';
import { eventOf, type Occurrence, pipelineOfEvent } from './event.ts';
import { eventIdOf } from './event-id.ts';
import {
  type AbandonedEvent,
  noOutbox,
  type Outbox,
  type Undelivered,
  type UndeliveredEvents,
  undeliveredInMemory,
} from './outbox.ts';
import type { NotifierConfig, OpenNotifier } from './sink-kinds.ts';

interface NotifierOptions extends Pick<
  DeliveryQueueOptions,
  'clock' | 'log' | 'onOutcome' | 'onPostponed' | 'policy' | 'random' | 'tracer'
> {
  notifiers: readonly OpenNotifier[];
  /** Stores events until their delivery is over; default: do not store them. */
  outbox?: Outbox;
  /** Stores events that could not be delivered; default: in memory. */
  undelivered?: UndeliveredEvents;
  /** Aborts when the process is about to stop. From then on, there is only one attempt for each event. */
  stopping?: AbortSignal;
}

/** How long deliveries can take once `stopping` has aborted. */
const stoppingTimeoutMs = 10_000;

/**
 * Sends events to receivers. There is a queue for each notifier, so a receiver that does not respond holds up
 * neither publications nor any other receiver.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #outbox: Outbox;
  readonly #undelivered: UndeliveredEvents;
  readonly #stopping: AbortSignal;
  /** Stops all deliveries. */
  readonly #deadline = new AbortController();
  /** The queue of each notifier, by its id. */
  #queues: ReadonlyMap<string, DeliveryQueue>;
  /** Notifiers that have been removed but still have events to deliver. */
  readonly #removed = new Set<Promise<void>>();
  readonly #redeliveries = new Set<Promise<unknown>>();
  #isClosing = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#outbox = options.outbox ?? noOutbox;
    this.#undelivered = options.undelivered ?? undeliveredInMemory();
    this.#stopping = options.stopping ?? new AbortController().signal;
    this.#queues = new Map(options.notifiers.map((notifier) => [notifier.config.id, this.#open(notifier)]));
    this.#outbox.open((event) => {
      if (!this.#isClosing) this.#queue(event);
    });
  }

  /**
   * Creates an event and adds it to the queue of each notifier that wants it. The spans of the deliveries
   * become children of `trace`. Does not wait for anything.
   */
  notify(occurrence: Occurrence, trace: TraceContext = {}): void {
    const event = eventOf(occurrence, eventIdOf(occurrence), this.#options.clock.now());
    const traced = { event, ...trace };
    const subscribed = [...this.#queues].filter(([, queue]) => isSubscribed(queue.config, occurrence));
    if (subscribed.length === 0) return;
    this.#outbox.store(
      traced,
      subscribed.map(([id]) => id),
      (notifierId, onEnd) => {
        // The notifier may have been removed in the meantime. This process could also be about to stop.
        if (!this.#isClosing || !this.#outbox.isDurable) this.#queue({ ...traced, notifierId, onEnd: onEnd });
      },
    );
  }

  /**
   * Replaces the notifiers. If a notifier is still there, it sends the events in its queue with the new
   * configuration, while deliveries that have started continue with the old one. If it was removed, it gets
   * no new events, but delivers the ones it has.
   */
  replace(notifiers: readonly OpenNotifier[]): void {
    const before = this.#queues;
    this.#queues = new Map(
      notifiers.map((notifier): [string, DeliveryQueue] => {
        const queue = before.get(notifier.config.id);
        queue?.replace(notifier);
        return [notifier.config.id, queue ?? this.#open(notifier)];
      }),
    );
    for (const [id, queue] of before) {
      if (this.#queues.has(id)) continue;
      const closing = queue.close().finally(() => this.#removed.delete(closing));
      this.#removed.add(closing);
    }
  }

  /**
   * Returns the events that a notifier could not deliver, in the order they happened. Returns null if there
   * are none and the notifier is not in the configuration. Throws `queue_unavailable` if the events cannot be
   * read.
   */
  async undelivered(notifierId: string): Promise<Undelivered[] | null> {
    const list = await this.#undelivered.list(notifierId);
    return list.length === 0 && !this.#queues.has(notifierId) ? null : list;
  }

  /**
   * Delivers the events that failed earlier; see `redeliver`. Once `signal` aborts, no other event is
   * started. Throws `notifier_not_found` if the notifier is not in the configuration, `redelivery_running`,
   * or `queue_unavailable`.
   */
  async redeliver(notifierId: string, signal?: AbortSignal): Promise<Redelivery> {
    const queue = this.#queues.get(notifierId);
    if (queue === undefined) throw notConfigured(notifierId);
    const redelivery = redeliver({
      notifierId,
      undelivered: this.#undelivered,
      clock: this.#options.clock,
      mayContinue: () =>
        this.#queues.get(notifierId) === queue && !this.#isClosing && signal?.aborted !== true,
      send: (traced) => queue.resend(traced),
    });
    this.#redeliveries.add(redelivery);
    return redelivery.finally(() => this.#redeliveries.delete(redelivery));
  }

  /**
   * Waits up to `withinMs` milliseconds for all deliveries, or ten seconds after `stopping` has aborted.
   * After that, any remaining events are dropped, and so are any that are added later. Finally, closes the
   * sinks.
   */
  async close(withinMs: number): Promise<void> {
    this.#isClosing = true;
    const timers: Timer[] = [];
    const abortAfter = (ms: number): void =>
      void timers.push(this.#options.clock.timeout(ms, () => this.#deadline.abort()));
    abortAfter(withinMs);
    const release = onAbort(this.#stopping, () => abortAfter(stoppingTimeoutMs));
    try {
      await Promise.allSettled(this.#redeliveries);
      const closing = [...this.#queues.values()].map(async (queue) => queue.close());
      await Promise.all([...this.#removed, ...closing]);
    } finally {
      release();
      for (const timer of timers) timer.cancel();
    }
  }

  #open(notifier: OpenNotifier): DeliveryQueue {
    return new DeliveryQueue(notifier, {
      ...this.#options,
      undelivered: this.#undelivered,
      isDurable: this.#outbox.isDurable,
      stopping: this.#stopping,
      signal: this.#deadline.signal,
    });
  }

  #queue({ notifierId, onEnd: onEnd, ...traced }: AbandonedEvent): void {
    const queue = this.#queues.get(notifierId);
    if (queue !== undefined) {
      queue.add(traced, onEnd);
      return;
    }
    const { clock, log } = this.#options;
    const { id: event_id, type: event_type } = traced.event;
    const reason = 'its notifier is no longer configured';
    log.warn({ notifier: notifierId, event_id, event_type }, `an event is undelivered: ${reason}`);
    onEnd(this.#undelivered.store(notifierId, toUndelivered(traced, failedDelivery(reason), clock)));
  }
}

/**
 * Reports whether a notifier is subscribed to this event. A notifier of some pipelines gets no audit records
 * about other things, such as logins.
 */
export function isSubscribed({ events, acts, pipelines }: NotifierConfig, occurrence: Occurrence): boolean {
  if (!(events as readonly string[]).includes(occurrence.type)) return false;
  const isAudit = occurrence.type === 'audit.recorded';
  if (isAudit && acts !== null && !acts.includes(occurrence.data.record.act)) return false;
  const pipeline = pipelineOfEvent(occurrence);
  if (pipelines === null) return true;
  return pipeline === null ? !isAudit : pipelines.includes(pipeline);
}

function notConfigured(notifierId: string): WaybillError {
  return new WaybillError('notifier_not_found', `there is no notifier "${notifierId}"`, {
    hint: 'check the id; to send the undelivered events of a removed notifier, configure it again first',
  });
}
