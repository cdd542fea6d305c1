import type { Timer } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { onAbort } from '../lib/on-abort.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { redeliver, type Redelivery } from './deliver.ts';
import { DeliveryQueue, type DeliveryQueueOptions, givenUp, unsent } from './delivery-queue.ts';
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

export interface NotifierOptions extends Pick<
  DeliveryQueueOptions,
  'clock' | 'log' | 'onOutcome' | 'onPostponed' | 'policy' | 'random' | 'tracer'
> {
  notifiers: readonly OpenNotifier[];
  /** Stores events until their delivery has ended. Default: none. */
  outbox?: Outbox;
  /** Stores events that could not be delivered. Default: in memory. */
  undelivered?: UndeliveredEvents;
  /** Aborts when the process is stopping. Each event is then attempted only once. */
  stopping?: AbortSignal;
}

/** The time limit for deliveries once `stopping` aborts. */
const stoppingTimeoutMs = 10_000;

/**
 * Sends events to receivers. Each notifier has its own queue, so that an unresponsive receiver delays neither
 * publications nor other receivers.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #outbox: Outbox;
  readonly #undelivered: UndeliveredEvents;
  readonly #stopping: AbortSignal;
  /** Aborts all deliveries. */
  readonly #deadline = new AbortController();
  /** The queues by notifier id. */
  #queues: ReadonlyMap<string, DeliveryQueue>;
  /** Removed notifiers that are still delivering events. */
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
   * Creates an event and queues it for every subscribed notifier. `trace` is the parent of the delivery
   * spans. Returns without waiting.
   */
  notify(occurrence: Occurrence, trace: TraceContext = {}): void {
    const event = eventOf(occurrence, eventIdOf(occurrence), this.#options.clock.now());
    const traced = { event, ...trace };
    const subscribed = [...this.#queues].filter(([, queue]) => wants(queue.config, occurrence));
    if (subscribed.length === 0) return;
    this.#outbox.keep(
      traced,
      subscribed.map(([id]) => id),
      (notifierId, ended) => {
        // The notifier may have been removed in the meantime, and this process may be stopping.
        if (!this.#isClosing || !this.#outbox.outlives) this.#queue({ ...traced, notifierId, ended });
      },
    );
  }

  /**
   * Replaces the notifiers. A notifier that remains keeps its waiting events and sends them with the new
   * configuration. Running deliveries continue with the old one. A removed notifier receives no new events,
   * but delivers those that are already queued.
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
   * Returns a notifier's undelivered events in the order in which they happened, or null if the notifier is
   * not configured and has none. Throws `queue_unavailable` if they cannot be read.
   */
  async undelivered(notifierId: string): Promise<Undelivered[] | null> {
    const list = await this.#undelivered.list(notifierId);
    return list.length === 0 && !this.#queues.has(notifierId) ? null : list;
  }

  /**
   * Redelivers the undelivered events; see `redeliver`. Starts no further events after `signal` aborts.
   * Throws `notifier_not_found` if the notifier is not configured, `redelivery_running` or
   * `queue_unavailable`.
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
   * Waits for all deliveries to end, but at most `withinMs` milliseconds, or ten seconds once `stopping`
   * aborts. Then drops the remaining events and closes the sinks. Later events are dropped.
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
      outlives: this.#outbox.outlives,
      stopping: this.#stopping,
      signal: this.#deadline.signal,
    });
  }

  #queue({ notifierId, ended, ...traced }: AbandonedEvent): void {
    const queue = this.#queues.get(notifierId);
    if (queue !== undefined) {
      queue.add(traced, ended);
      return;
    }
    const { clock, log } = this.#options;
    const { id: event_id, type: event_type } = traced.event;
    const reason = 'its notifier is no longer configured';
    log.warn({ notifier: notifierId, event_id, event_type }, `an event is undelivered: ${reason}`);
    ended(this.#undelivered.keep(notifierId, givenUp(traced, unsent(reason), clock)));
  }
}

/** Reports whether a notifier is subscribed to the occurrence. */
export function wants({ events, pipelines }: NotifierConfig, occurrence: Occurrence): boolean {
  if (!(events as readonly string[]).includes(occurrence.type)) return false;
  const pipeline = pipelineOfEvent(occurrence);
  return pipelines === null || pipeline === null || pipelines.includes(pipeline);
}

function notConfigured(notifierId: string): WaybillError {
  return new WaybillError('notifier_not_found', `there is no notifier "${notifierId}"`, {
    hint: 'check the id; to send the undelivered events of a removed notifier, configure it again first',
  });
}
