import { customAlphabet } from 'nanoid';
import type { Clock, Timer } from '../clock.ts';
import type { Log } from '../log.ts';
import { onAbort } from '../on-abort.ts';
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
   * From now on these are the notifiers. One that stays takes its events with it: those that wait are sent as
   * it is configured now, those that are on their way as they began. One that is left out gets no more, and
   * delivers what it has.
   */
  replace(notifiers: readonly OpenNotifier[]): void;
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
  const open = (notifier: OpenNotifier): Lane =>
    laneOf(notifier, { ...options, hurry, signal: giveUp.signal });
  let lanes: ReadonlyMap<string, Lane> = new Map(
    options.notifiers.map((notifier) => [notifier.config.id, open(notifier)]),
  );
  const leaving = new Set<Promise<void>>();
  for (const { notifierId, event, ended } of outbox.left) {
    const lane = lanes.get(notifierId);
    if (lane !== undefined) lane.add(event, ended);
    else dropped({ notifierId, event, ended }, options.log);
  }
  return {
    notify(occurrence) {
      const event = eventOf(occurrence, newEventId(), clock.now());
      for (const [id, lane] of lanes)
        if (wants(lane.config(), occurrence)) lane.add(event, outbox.keep(id, event));
    },
    replace(notifiers) {
      const before = lanes;
      lanes = new Map(
        notifiers.map((notifier): [string, Lane] => {
          const lane = before.get(notifier.config.id);
          lane?.replace(notifier);
          return [notifier.config.id, lane ?? open(notifier)];
        }),
      );
      for (const [id, lane] of before) {
        if (lanes.has(id)) continue;
        const left = lane.close().finally(() => leaving.delete(left));
        leaving.add(left);
      }
    },
    async close(withinMs) {
      const timers: Timer[] = [];
      const giveUpIn = (ms: number): void => void timers.push(clock.timeout(ms, () => giveUp.abort()));
      const hasten = (): void => giveUpIn(hurriedMs);
      giveUpIn(withinMs);
      const release = onAbort(hurry, hasten);
      try {
        await Promise.all([...leaving, ...[...lanes.values()].map(async (lane) => lane.close())]);
      } finally {
        release();
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
  config: () => NotifierConfig;
  /** Sends with another configuration and sink from now on; the former sink is closed once it is idle. */
  replace(next: OpenNotifier): void;
  /** `ended` is called when its delivery has ended for good. */
  add(event: Event, ended: () => void): void;
  /** Waits until everything has ended, and closes the sink. */
  close(): Promise<void>;
}

interface Waiting {
  event: Event;
  ended: () => void;
}

function laneOf(
  first: OpenNotifier,
  options: NotifierOptions & { signal: AbortSignal; hurry: AbortSignal },
): Lane {
  const { clock, log, signal, hurry, onOutcome } = options;
  let current = first;
  const sends = new Map<Sink, number>();
  const waiting: Waiting[] = [];
  const working = new Set<Promise<void>>();
  let isGone = false;

  const isKept = (options.outbox ?? noOutbox) !== noOutbox;
  const end = ({ event, ended }: Waiting, delivery: Delivery): void => {
    const isStopping = hurry.aborted || signal.aborted;
    if (isKept && isStopping && !delivery.delivered && !delivery.gone) {
      log.info(
        { notifier: first.config.id, event_id: event.id, event_type: event.type },
        'event kept for the next start',
      );
      return;
    }
    ended();
    const { id, kind } = current.config;
    onOutcome({ ...delivery, notifierId: id, kind, event });
  };
  const unsent = (reason: string, gone = false): Delivery => ({ delivered: false, tries: 0, reason, gone });

  const send = async ({ sink, config }: OpenNotifier, event: Event): Promise<Delivery> => {
    sends.set(sink, (sends.get(sink) ?? 0) + 1);
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
        end(next, unsent('the receiver is gone', true));
        continue;
      }
      const used = current;
      const delivery = await send(used, next.event);
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
    add(event, ended) {
      const next = { event, ended };
      if (waiting.length >= waitingAtMost) {
        end(next, unsent(`${waitingAtMost} events were waiting already`));
        return;
      }
      waiting.push(next);
      if (working.size < current.sink.concurrency) startWorker();
    },
    async close() {
      while (working.size > 0) await Promise.all(working);
      await current.sink.close();
    },
  };
}
