import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { RetryPolicy } from '../lib/retry.ts';
import { noTracer, type Span, type Tracer } from '../tracing/span.ts';
import { traceOf } from '../tracing/trace-context.ts';
import { deliver, type DeliveryResult } from './deliver.ts';
import type { TracedEvent } from './event.ts';
import type { OnDeliveryEnd, Undelivered, UndeliveredEvents } from './outbox.ts';
import type { Sink } from './sink.ts';
import type { NotifierConfig, OpenNotifier } from './sink-kinds.ts';

export interface DeliveryOutcome extends DeliveryResult, TracedEvent {
  notifierId: string;
  kind: NotifierConfig['kind'];
  /** Whether the event failed earlier and is being delivered again. */
  isRedelivery: boolean;
}

/** A failed attempt that is going to be repeated. */
export interface Postponed extends TracedEvent {
  notifierId: string;
  /** How many attempts this process has made to deliver the event. */
  tries: number;
  reason: string;
  /**
   * The time of the next attempt (RFC 3339, UTC); null if another process will make it, or this one after a
   * restart.
   */
  nextTryAt: string | null;
}

/** How many events can wait for each notifier. If there are any more, their delivery fails. */
export const maxWaiting = 10_000;

export interface DeliveryQueueOptions {
  clock: Clock;
  /** Failed attempts are logged at debug level. How a delivery ends is reported to `onOutcome`. */
  log: Log;
  /**
   * Called when the delivery of an event has ended, including a redelivery. Not called for events that are
   * kept for the next process.
   */
  onOutcome: (outcome: DeliveryOutcome) => void;
  /**
   * Called for every attempt that is going to be repeated, even if the next process does it. Must not throw.
   */
  onPostponed?: (postponed: Postponed) => void;
  /** Stores events that could not be delivered. */
  undelivered: UndeliveredEvents;
  /** Whether undelivered events are still there for the next process after this one exits. */
  isDurable: boolean;
  /** Creates the spans of deliveries. Default: no tracing. */
  tracer?: Tracer;
  /** Stops all deliveries right away. */
  signal: AbortSignal;
  /** Once this aborts, there is only one attempt for each event. */
  stopping: AbortSignal;
  /** Only set in tests. */
  policy?: RetryPolicy;
  random?: () => number;
}

interface WaitingEvent extends TracedEvent {
  onEnd: OnDeliveryEnd;
}

/** Contains the events that a notifier has yet to send, and runs the workers that pass them to its sink. */
export class DeliveryQueue {
  readonly #options: DeliveryQueueOptions;
  #current: OpenNotifier;
  readonly #waiting: WaitingEvent[] = [];
  readonly #workers = new Set<Promise<void>>();
  readonly #redeliveries = new Set<Promise<DeliveryResult>>();
  /** How many deliveries each sink is working on. A sink that was replaced is closed when it is done. */
  readonly #running = new Map<Sink, number>();
  /** Whether the receiver has said that it never wants any more events. */
  #hasUnsubscribed = false;

  constructor(notifier: OpenNotifier, options: DeliveryQueueOptions) {
    this.#current = notifier;
    this.#options = options;
  }

  get config(): NotifierConfig {
    return this.#current.config;
  }

  /** Adds an event to the queue. Calls `onEnd` when its delivery is over. */
  add(traced: TracedEvent, onEnd: OnDeliveryEnd): void {
    const event = { ...traced, onEnd };
    if (this.#waiting.length >= maxWaiting) {
      this.#end(event, failedDelivery(`${maxWaiting} events were already waiting`));
      return;
    }
    this.#waiting.push(event);
    if (this.#workers.size < this.#current.sink.concurrency) this.#startWorker();
  }

  /** Delivers an event that failed earlier, without waiting in the queue. There are the usual retries. */
  async resend(traced: TracedEvent): Promise<DeliveryResult> {
    const notifier = this.#current;
    const sending = this.#send(notifier, traced);
    this.#redeliveries.add(sending);
    const delivery = await sending.finally(() => this.#redeliveries.delete(sending));
    // If it accepts an event, the receiver is available after all.
    if (notifier === this.#current)
      this.#hasUnsubscribed = !delivery.delivered && (this.#hasUnsubscribed || delivery.gone);
    this.#report(notifier, traced, { ...delivery, isRedelivery: true });
    return delivery;
  }

  /**
   * Uses another configuration and sink from now on. The old sink is closed when it has nothing left to do.
   */
  replace(next: OpenNotifier): void {
    const { sink } = this.#current;
    this.#current = next;
    this.#hasUnsubscribed = false;
    if (!this.#running.has(sink)) closeQuietly(sink);
    const missing = Math.min(next.sink.concurrency - this.#workers.size, this.#waiting.length);
    for (let started = 0; started < missing; started += 1) this.#startWorker();
  }

  /** Closes the sink when all deliveries are over. */
  async close(): Promise<void> {
    while (this.#workers.size + this.#redeliveries.size > 0)
      await Promise.all([...this.#workers, ...this.#redeliveries]);
    await this.#current.sink.close();
  }

  #startWorker(): void {
    const worker = this.#work().finally(() => {
      this.#workers.delete(worker);
      // An event may have been added after this worker found nothing to do.
      if (this.#waiting.length > 0 && this.#workers.size < this.#current.sink.concurrency)
        this.#startWorker();
    });
    this.#workers.add(worker);
  }

  async #work(): Promise<void> {
    // The sink may have been replaced with one that allows fewer deliveries at a time. If so, this worker
    // ends.
    while (this.#workers.size <= this.#current.sink.concurrency) {
      const event = this.#waiting.shift();
      if (event === undefined) return;
      if (this.#hasUnsubscribed) {
        this.#end(event, failedDelivery('the receiver is gone', { gone: true }));
        continue;
      }
      const notifier = this.#current;
      const delivery = await this.#send(notifier, event);
      if (notifier === this.#current) this.#hasUnsubscribed ||= delivery.gone;
      this.#end(event, delivery);
    }
  }

  async #send({ sink, config }: OpenNotifier, traced: TracedEvent): Promise<DeliveryResult> {
    this.#running.set(sink, (this.#running.get(sink) ?? 0) + 1);
    const span = deliverySpan(this.#options.tracer ?? noTracer, config, traced);
    const delivery = await deliver(sink, traced.event, {
      ...this.#options,
      trace: span.trace,
      onRetry: ({ reason }, tries, pauseMs) => this.#postpone(traced, { tries, reason, pauseMs }),
    });
    span.set({ 'waybill.tries': delivery.tries });
    if (!delivery.delivered) span.fail(delivery.gone ? 'gone' : delivery.isTemporary ? 'away' : 'refused');
    span.end();
    const running = (this.#running.get(sink) ?? 1) - 1;
    if (running > 0) this.#running.set(sink, running);
    else this.#running.delete(sink);
    if (running === 0 && this.#current.sink !== sink) closeQuietly(sink);
    return delivery;
  }

  #postpone(
    traced: TracedEvent,
    { tries, reason, pauseMs }: { tries: number; reason: string; pauseMs: number },
  ): void {
    const { clock, log, onPostponed } = this.#options;
    const nextTryAt = new Date(clock.now().getTime() + pauseMs).toISOString();
    onPostponed?.({ ...traced, notifierId: this.config.id, tries, reason, nextTryAt });
    log.debug(
      { ...this.#logged(traced), attempt: tries, pauseMs, reason },
      'event not delivered, trying again',
    );
  }

  #end({ onEnd, ...traced }: WaitingEvent, delivery: DeliveryResult): void {
    const { clock, stopping, isDurable, signal, undelivered } = this.#options;
    const isStopping = stopping.aborted || signal.aborted;
    if (isDurable && isStopping && !delivery.delivered && !delivery.gone) {
      this.#keepForNextStart(traced, delivery);
      return;
    }
    // An event leaves the outbox and becomes undelivered in the same tick, so it is always stored in one of
    // the two.
    onEnd(
      delivery.delivered
        ? undefined
        : undelivered.store(this.config.id, toUndelivered(traced, delivery, clock)),
    );
    this.#report(this.#current, traced, { ...delivery, isRedelivery: false });
  }

  #keepForNextStart(traced: TracedEvent, { tries, reason }: DeliveryResult): void {
    this.#options.log.info(this.#logged(traced), 'event kept for the next start');
    if (tries > 0 && reason !== null)
      this.#options.onPostponed?.({
        ...traced,
        notifierId: this.config.id,
        tries,
        reason,
        nextTryAt: null,
      });
  }

  #report(
    { config: { id: notifierId, kind } }: OpenNotifier,
    traced: TracedEvent,
    delivery: DeliveryResult & { isRedelivery: boolean },
  ): void {
    this.#options.onOutcome({ ...delivery, ...traced, notifierId, kind });
  }

  #logged({ event }: TracedEvent): object {
    return { notifier: this.config.id, event_id: event.id, event_type: event.type };
  }
}

/** Closes a sink that was replaced. Errors do not matter. */
function closeQuietly(sink: Sink): void {
  void sink.close().catch(() => undefined);
}

/** Returns the result for an event that could not even be attempted. */
export function failedDelivery(reason: string, { gone = false } = {}): DeliveryResult {
  return { delivered: false, tries: 0, reason, gone, isTemporary: false };
}

export function toUndelivered(
  { event, ...trace }: TracedEvent,
  { tries, reason }: DeliveryResult,
  clock: Clock,
): Undelivered {
  return {
    event,
    ...traceOf(trace),
    tries,
    reason: reason ?? 'unknown',
    givenUpAt: clock.now().toISOString(),
  };
}

/** Starts a span for a delivery. It includes all attempts. */
function deliverySpan(tracer: Tracer, { id, kind }: NotifierConfig, { event, ...trace }: TracedEvent): Span {
  return tracer.start('notify', {
    parent: traceOf(trace),
    kind: 'client',
    attributes: {
      'waybill.notifier_id': id,
      'waybill.notifier_kind': kind,
      'waybill.event_id': event.id,
      'waybill.event_type': event.type,
    },
  });
}
