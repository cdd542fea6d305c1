import { customAlphabet } from 'nanoid';
import type { Clock, Timer } from '../clock.ts';
import type { Log } from '../log.ts';
import type { RetryPolicy } from '../retry.ts';
import { deliver, type Delivery } from './deliver.ts';
import { eventOf, pipelineOfEvent, type Event, type Occurrence } from './event.ts';
import type { NotifierConfig } from './sink-kinds.ts';
import { noOutbox, type Outbox } from './outbox.ts';
import type { Sink } from './sink.ts';

/** A configured notifier with its sink open. */
export interface OpenNotifier {
  config: NotifierConfig;
  sink: Sink;
}

export interface NotifierOptions {
  notifiers: readonly OpenNotifier[];
  clock: Clock;
  /** Failed tries are logged at level debug; `onOutcome` gets the end of a delivery. */
  log: Log;
  /**
   * Called once for each event and each notifier that it was for, unless the outbox keeps it for the next
   * process.
   */
  onOutcome: (outcome: Outcome) => void;
  /** Where events are kept until their delivery has ended; by default nowhere. */
  outbox?: Outbox;
  /** Once it aborts, events get one try each: the process was asked to stop. */
  hurry?: AbortSignal;
  /** Only tests pass their own. */
  policy?: RetryPolicy;
  random?: () => number;
}

export interface Outcome extends Delivery {
  notifierId: string;
  kind: NotifierConfig['kind'];
  event: Event;
}

export interface Notifier {
  /** Makes an event of it and sees to its delivery to every notifier that wants it. Returns at once. */
  notify(occurrence: Occurrence): void;
  /**
   * Waits until everything is delivered or given up, at most `withinMs`, or ten seconds if the process was
   * asked to stop; drops the rest, and closes the sinks. Later events are dropped.
   */
  close(withinMs: number): Promise<void>;
}

/** Queue limit of each notifier, in events; further events are dropped. */
export const waitingAtMost = 10_000;

const hurriedMs = 10_000;

// As Standard Webhooks has them: unique, without a full stop.
const randomId = customAlphabet('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', 27);
export const newEventId = (): string => `msg_${randomId()}`;

/**
 * Every notifier has its own queue, so that a dead receiver holds up neither a publication nor another
 * receiver.
 */
export function createNotifier(options: NotifierOptions): Notifier {
  const { clock, outbox = noOutbox, hurry = new AbortController().signal } = options;
  const giveUp = new AbortController();
  const lanes = options.notifiers.map((notifier) =>
    laneOf(notifier, { ...options, hurry, signal: giveUp.signal }),
  );
  for (const { notifierId, event, ended } of outbox.left) {
    const lane = lanes.find(({ config }) => config.id === notifierId);
    if (lane !== undefined) lane.add(event, ended);
    else dropped({ notifierId, event, ended }, options.log);
  }
  return {
    notify(occurrence) {
      const event = eventOf(occurrence, newEventId(), clock.now());
      for (const lane of lanes)
        if (wants(lane.config, occurrence)) lane.add(event, outbox.keep(lane.config.id, event));
    },
    async close(withinMs) {
      const timers: Timer[] = [];
      const giveUpIn = (ms: number): void => void timers.push(clock.timeout(ms, () => giveUp.abort()));
      const hasten = (): void => giveUpIn(hurriedMs);
      giveUpIn(withinMs);
      if (hurry.aborted) hasten();
      hurry.addEventListener('abort', hasten, { once: true });
      try {
        await Promise.all(lanes.map(async (lane) => lane.close()));
      } finally {
        hurry.removeEventListener('abort', hasten);
        for (const timer of timers) timer.cancel();
      }
    },
  };
}

/** Whether a notifier is subscribed to it. Pure. */
export function wants({ events, pipelines }: NotifierConfig, occurrence: Occurrence): boolean {
  if (!(events as readonly string[]).includes(occurrence.type)) return false;
  const pipeline = pipelineOfEvent(occurrence);
  return pipelines === null || pipeline === null || pipelines.includes(pipeline);
}

/** An event for a notifier that is not configured any more. */
function dropped({ notifierId, event, ended }: Outbox['left'][number], log: Log): void {
  log.warn(
    { notifier: notifierId, event_id: event.id, event_type: event.type },
    'an event is dropped: its notifier is not configured any more',
  );
  ended();
}

interface Lane {
  config: NotifierConfig;
  /** `ended` is called when its delivery has ended for good. */
  add(event: Event, ended: () => void): void;
  close(): Promise<void>;
}

interface Waiting {
  event: Event;
  ended: () => void;
}

function laneOf(
  { config, sink }: OpenNotifier,
  options: NotifierOptions & { signal: AbortSignal; hurry: AbortSignal },
): Lane {
  const { clock, log, signal, hurry, onOutcome } = options;
  const waiting: Waiting[] = [];
  const working = new Set<Promise<void>>();
  let isGone = false;

  const isKept = (options.outbox ?? noOutbox) !== noOutbox;
  const end = ({ event, ended }: Waiting, delivery: Delivery): void => {
    const isStopping = hurry.aborted || signal.aborted;
    if (isKept && isStopping && !delivery.delivered && !delivery.gone) {
      log.info(
        { notifier: config.id, event_id: event.id, event_type: event.type },
        'event kept for the next start',
      );
      return;
    }
    ended();
    onOutcome({ ...delivery, notifierId: config.id, kind: config.kind, event });
  };
  const unsent = (reason: string, gone = false): Delivery => ({ delivered: false, tries: 0, reason, gone });

  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (isGone) {
        end(next, unsent('the receiver is gone', true));
        continue;
      }
      const { event } = next;
      const { id: eventId, type } = event;
      const delivery = await deliver(sink, event, {
        clock,
        signal,
        hurry,
        ...(options.policy === undefined ? {} : { policy: options.policy }),
        ...(options.random === undefined ? {} : { random: options.random }),
        onRetry: ({ reason }, attempt, pauseMs) =>
          log.debug(
            { notifier: config.id, event_id: eventId, event_type: type, attempt, pauseMs, reason },
            'event not delivered, trying again',
          ),
      });
      isGone ||= delivery.gone;
      end(next, delivery);
    }
  };

  return {
    config,
    add(event, ended) {
      const next = { event, ended };
      if (waiting.length >= waitingAtMost) {
        end(next, unsent(`${waitingAtMost} events were waiting already`));
        return;
      }
      waiting.push(next);
      if (working.size >= sink.concurrency) return;
      const worker = work().finally(() => working.delete(worker));
      working.add(worker);
    },
    async close() {
      while (working.size > 0) await Promise.all(working);
      await sink.close();
    },
  };
}
