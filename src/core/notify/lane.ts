import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { RetryPolicy } from '../retry.ts';
import { deliver, type Delivery } from './deliver.ts';
import type { TracedEvent } from './event.ts';
import type { Ended } from './outbox.ts';
import type { NotifierConfig } from './sink-kinds.ts';
import type { Sink } from './sink.ts';
import { noTracer, type Span, type Tracer } from '../tracing/span.ts';
import { traceOf } from '../tracing/trace-context.ts';
import type { Undelivered, UndeliveredEvents } from './undelivered.ts';

/** A configured notifier with its sink open. */
export interface OpenNotifier {
  config: NotifierConfig;
  sink: Sink;
}

export interface Outcome extends Delivery, TracedEvent {
  notifierId: string;
  kind: NotifierConfig['kind'];
  /** Whether it was given up before, and was sent again. */
  isAgain: boolean;
}

/** A try that failed, and is not the last one. */
export interface Postponed extends TracedEvent {
  notifierId: string;
  /** Of this delivery, in this process. */
  tries: number;
  reason: string;
  /** When it is tried again: RFC 3339, UTC; null where another process does, or this one when it is back. */
  nextTryAt: string | null;
}

/** Queue limit of each notifier, in events; further events are given up. */
export const waitingAtMost = 10_000;

/** The queue of one notifier, and its sink. */
export interface Lane {
  config: () => NotifierConfig;
  /** Sends with another configuration and sink from now on; the former sink is closed once it is idle. */
  replace(next: OpenNotifier): void;
  /** `ended` is called when its delivery has ended for good. */
  add(traced: TracedEvent, ended: Ended): void;
  /** Sends an event at once that was given up before, with all its tries. */
  again(traced: TracedEvent): Promise<Delivery>;
  /** Waits until everything has ended, and closes the sink. */
  close(): Promise<void>;
}

export interface LaneOptions {
  clock: Clock;
  /** Failed tries are logged at level debug; `onOutcome` gets the end of a delivery. */
  log: Log;
  /** Called for each event, unless it is kept for the next process; and whenever one was sent again. */
  onOutcome: (outcome: Outcome) => void;
  /** Called for each try that is not the last one, and for what the next process tries; must not throw. */
  onPostponed?: (postponed: Postponed) => void;
  /** Gets what is given up. */
  undelivered: UndeliveredEvents;
  /** Whether what is not delivered when the process ends is kept for the next one. */
  outlives: boolean;
  /** Makes the spans of deliveries; without it nothing is traced. */
  tracer?: Tracer;
  /** Gives up at once. */
  signal: AbortSignal;
  /** Once it aborts, events get one try each. */
  hurry: AbortSignal;
  /** Only tests pass their own. */
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
  const again = new Set<Promise<Delivery>>();
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
    // Before it has ended: in one turn, so that it is kept in one place or the other.
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
    if (left === 0 && current.sink !== sink) leave(sink);
    return delivery;
  };

  const work = async (): Promise<void> => {
    // A sink that replaced another may take fewer at once.
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

  // What is still open of it does not concern anybody any more.
  const leave = (sink: Sink): void => void sink.close().catch(() => undefined);

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
      if (!sends.has(sink)) leave(sink);
      const free = Math.min(next.sink.concurrency - working.size, waiting.length);
      for (let started = 0; started < free; started += 1) startWorker();
    },
    add(traced, ended) {
      const next = { ...traced, ended };
      if (waiting.length >= waitingAtMost) {
        end(next, unsent(`${waitingAtMost} events were waiting already`));
        return;
      }
      waiting.push(next);
      if (working.size < current.sink.concurrency) startWorker();
    },
    async again(traced) {
      const used = current;
      const sending = send(used, traced);
      again.add(sending);
      const delivery = await sending.finally(() => again.delete(sending));
      // Who takes an event again is there again.
      if (used === current) isGone = !delivery.delivered && (isGone || delivery.gone);
      const { id, kind } = used.config;
      onOutcome({ ...delivery, ...traced, notifierId: id, kind, isAgain: true });
      return delivery;
    },
    async close() {
      while (working.size + again.size > 0) await Promise.all([...working, ...again]);
      await current.sink.close();
    },
  };
}

/** What did not get as far as a try. */
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

/** All tries of one delivery together. */
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
