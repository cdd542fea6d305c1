import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { RetryPolicy } from '../lib/retry.ts';
import { noTracer, type Span, type Tracer } from '../tracing/span.ts';
import { traceOf } from '../tracing/trace-context.ts';
import { deliver, type Delivery } from './deliver.ts';
import type { TracedEvent } from './event.ts';
import type { Ended, Undelivered, UndeliveredEvents } from './outbox.ts';
import type { Sink } from './sink.ts';
import type { NotifierConfig, OpenNotifier } from './sink-kinds.ts';

/*
 * The queue of one notifier: waiting events, workers and the sink.
 */

export interface Outcome extends Delivery, TracedEvent {
  notifierId: string;
  kind: NotifierConfig['kind'];
  /** Whether this is the redelivery of an event whose delivery had failed before. */
  isAgain: boolean;
}

/** A failed try that will be retried. */
export interface Postponed extends TracedEvent {
  notifierId: string;
  /** The tries of this delivery in this process. */
  tries: number;
  reason: string;
  /** When the next try starts: RFC 3339, UTC. null if another process, or the next start, retries. */
  nextTryAt: string | null;
}

/** The maximum number of waiting events per notifier. Delivery of further events fails. */
export const maxWaiting = 10_000;

/** The queue of one notifier and its sink. */
export interface Lane {
  config: () => NotifierConfig;
  /** Switches to another configuration and sink. Closes the previous sink once it is idle. */
  replace(next: OpenNotifier): void;
  /** Queues an event. Calls `ended` when its delivery has ended. */
  add(traced: TracedEvent, ended: Ended): void;
  /** Sends an event immediately whose delivery had failed before, with the usual tries. */
  resend(traced: TracedEvent): Promise<Delivery>;
  /** Waits until all deliveries have ended, and closes the sink. */
  close(): Promise<void>;
}

export interface LaneOptions {
  clock: Clock;
  /** Failed tries are logged at level debug. `onOutcome` receives the end of a delivery. */
  log: Log;
  /** Called for each event unless it is kept for the next process, and after each redelivery. */
  onOutcome: (outcome: Outcome) => void;
  /** Called for each try that will be retried, also by the next process. Must not throw. */
  onPostponed?: (postponed: Postponed) => void;
  /** Receives the events whose delivery failed. */
  undelivered: UndeliveredEvents;
  /** Whether undelivered events are kept for the next process when this one ends. */
  outlives: boolean;
  /** Creates the spans of deliveries. Without it, nothing is traced. */
  tracer?: Tracer;
  /** Aborts all deliveries immediately. */
  signal: AbortSignal;
  /** After it aborts, each event gets one try. */
  hurry: AbortSignal;
  /** Set only by tests. */
  policy?: RetryPolicy;
  random?: () => number;
}

interface Waiting extends TracedEvent {
  ended: Ended;
}

export function laneOf(first: OpenNotifier, options: LaneOptions): Lane {
  const { clock, log, signal, hurry, onOutcome, undelivered, onPostponed = () => undefined } = options;
  let current = first;
  const sends = new Map<Sink, number>();
  const waiting: Waiting[] = [];
  const working = new Set<Promise<void>>();
  const resending = new Set<Promise<Delivery>>();
  let isGone = false;

  const end = ({ ended, ...traced }: Waiting, delivery: Delivery): void => {
    const { event } = traced;
    const isStopping = hurry.aborted || signal.aborted;
    if (options.outlives && isStopping && !delivery.delivered && !delivery.gone) {
      log.info(
        { notifier: first.config.id, event_id: event.id, event_type: event.type },
        'event kept for the next start',
      );
      const { tries, reason } = delivery;
      if (tries > 0 && reason !== null)
        onPostponed({ ...traced, notifierId: first.config.id, tries, reason, nextTryAt: null });
      return;
    }
    const { id, kind } = current.config;
    // Stored as undelivered in the same turn in which it leaves the outbox, so that it is never in neither.
    ended(delivery.delivered ? undefined : undelivered.keep(id, givenUp(traced, delivery, clock)));
    onOutcome({ ...delivery, ...traced, notifierId: id, kind, isAgain: false });
  };

  const send = async ({ sink, config }: OpenNotifier, traced: TracedEvent): Promise<Delivery> => {
    sends.set(sink, (sends.get(sink) ?? 0) + 1);
    const { event } = traced;
    const { id: eventId, type } = event;
    const span = deliverySpan(options.tracer ?? noTracer, config, traced);
    const delivery = await deliver(sink, event, {
      clock,
      signal,
      hurry,
      trace: span.trace,
      ...(options.policy === undefined ? {} : { policy: options.policy }),
      ...(options.random === undefined ? {} : { random: options.random }),
      onRetry: ({ reason }, attempt, pauseMs) => {
        const nextTryAt = new Date(clock.now().getTime() + pauseMs).toISOString();
        onPostponed({ ...traced, notifierId: config.id, tries: attempt, reason, nextTryAt });
        log.debug(
          { notifier: config.id, event_id: eventId, event_type: type, attempt, pauseMs, reason },
          'event not delivered, trying again',
        );
      },
    });
    span.set({ 'waybill.tries': delivery.tries });
    if (!delivery.delivered) span.fail(delivery.gone ? 'gone' : delivery.isAway ? 'away' : 'refused');
    span.end();
    const left = (sends.get(sink) ?? 1) - 1;
    if (left > 0) sends.set(sink, left);
    else sends.delete(sink);
    if (left === 0 && current.sink !== sink) closeQuietly(sink);
    return delivery;
  };

  const work = async (): Promise<void> => {
    // A replaced sink may allow less concurrency. This worker then ends.
    while (working.size <= current.sink.concurrency) {
      const next = waiting.shift();
      if (next === undefined) return;
      if (isGone) {
        end(next, unsent('the receiver is gone', { gone: true }));
        continue;
      }
      const used = current;
      const delivery = await send(used, next);
      if (used === current) isGone ||= delivery.gone;
      end(next, delivery);
    }
  };

  // Errors while closing a replaced sink do not matter.
  const closeQuietly = (sink: Sink): void => void sink.close().catch(() => undefined);

  const startWorker = (): void => {
    const worker = work().finally(() => working.delete(worker));
    working.add(worker);
  };

  return {
    config: () => current.config,
    replace(next) {
      const { sink } = current;
      current = next;
      isGone = false;
      if (!sends.has(sink)) closeQuietly(sink);
      const free = Math.min(next.sink.concurrency - working.size, waiting.length);
      for (let started = 0; started < free; started += 1) startWorker();
    },
    add(traced, ended) {
      const next = { ...traced, ended };
      if (waiting.length >= maxWaiting) {
        end(next, unsent(`${maxWaiting} events were already waiting`));
        return;
      }
      waiting.push(next);
      if (working.size < current.sink.concurrency) startWorker();
    },
    async resend(traced) {
      const used = current;
      const sending = send(used, traced);
      resending.add(sending);
      const delivery = await sending.finally(() => resending.delete(sending));
      // A receiver that accepts an event wants events again.
      if (used === current) isGone = !delivery.delivered && (isGone || delivery.gone);
      const { id, kind } = used.config;
      onOutcome({ ...delivery, ...traced, notifierId: id, kind, isAgain: true });
      return delivery;
    },
    async close() {
      while (working.size + resending.size > 0) await Promise.all([...working, ...resending]);
      await current.sink.close();
    },
  };
}

/** The result of a delivery that failed before its first try. */
export function unsent(reason: string, { gone = false } = {}): Delivery {
  return { delivered: false, tries: 0, reason, gone, isAway: false };
}

export function givenUp(
  { event, ...trace }: TracedEvent,
  { tries, reason }: Delivery,
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

/** One span for all tries of a delivery. */
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
