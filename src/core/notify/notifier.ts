import type { Timer } from '../clock.ts';
import { WaybillError } from '../errors.ts';
import { onAbort } from '../on-abort.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { eventOf, pipelineOfEvent, type Occurrence } from './event.ts';
import { eventIdOf } from './event-id.ts';
import { givenUp, laneOf, unsent, type Lane, type LaneOptions, type OpenNotifier } from './lane.ts';
import { noOutbox, type LeftEvent, type Outbox } from './outbox.ts';
import { redeliver, type Redelivery } from './redeliver.ts';
import type { NotifierConfig } from './sink-kinds.ts';
import type { Undelivered, UndeliveredEvents } from './undelivered.ts';
import { undeliveredBook } from './undelivered-book.ts';

export interface NotifierOptions extends Pick<
  LaneOptions,
  'clock' | 'log' | 'onOutcome' | 'onPostponed' | 'policy' | 'random' | 'tracer'
> {
  notifiers: readonly OpenNotifier[];
  /** Where events are kept until their delivery has ended; by default nowhere. */
  outbox?: Outbox;
  /** Where events are kept that were given up; by default in memory. */
  undelivered?: UndeliveredEvents;
  /** Once it aborts, events get one try each: the process was asked to stop. */
  hurry?: AbortSignal;
}

export interface Notifier {
  /**
   * Makes an event of it and sees to its delivery to every notifier that wants it, in the trace of the span
   * in which it happened. Returns at once.
   */
  notify(occurrence: Occurrence, trace?: TraceContext): void;
  /**
   * From now on these are the notifiers. One that stays takes its events with it: those that wait are sent as
   * it is configured now, those that are on their way as they began. One that is left out gets no more, and
   * delivers what it has.
   */
  replace(notifiers: readonly OpenNotifier[]): void;
  /**
   * What was given up for this notifier, in the order in which it happened; null if it is neither configured
   * nor has anything. Throws `queue_unavailable` if that cannot be reached.
   */
  undelivered(notifierId: string): Promise<Undelivered[] | null>;
  /**
   * Sends that again, as `redeliver` of `redeliver.ts`; begins no further event once `signal` aborts. Throws
   * `notifier_not_found` if the notifier is not configured, `redelivery_running` or `queue_unavailable`.
   */
  redeliver(notifierId: string, signal?: AbortSignal): Promise<Redelivery>;
  /**
   * Waits until everything is delivered or given up, at most `withinMs`, or ten seconds if the process was
   * asked to stop; drops the rest, and closes the sinks. Later events are dropped.
   */
  close(withinMs: number): Promise<void>;
}

const hurriedMs = 10_000;

/**
 * Every notifier has its own queue, so that a dead receiver holds up neither a publication nor another
 * receiver.
 */
export function createNotifier(options: NotifierOptions): Notifier {
  const { clock, outbox = noOutbox, hurry = new AbortController().signal } = options;
  const { undelivered = undeliveredBook() } = options;
  const giveUp = new AbortController();
  const { outlives } = outbox;
  const open = (notifier: OpenNotifier): Lane =>
    laneOf(notifier, { ...options, undelivered, outlives, hurry, signal: giveUp.signal });
  let lanes: ReadonlyMap<string, Lane> = new Map(
    options.notifiers.map((notifier) => [notifier.config.id, open(notifier)]),
  );
  const leaving = new Set<Promise<void>>();
  const redeliveries = new Set<Promise<unknown>>();
  let isClosing = false;
  outbox.open((left) => {
    if (isClosing) return;
    const { ended, ...kept } = left;
    const lane = lanes.get(kept.notifierId);
    if (lane !== undefined) lane.add(kept, ended);
    else ofNobody(left, { ...options, undelivered });
  });
  return {
    notify(occurrence, trace = {}) {
      const traced = { event: eventOf(occurrence, eventIdOf(occurrence), clock.now()), ...trace };
      const wanting = [...lanes].filter(([, lane]) => wants(lane.config(), occurrence)).map(([id]) => id);
      if (wanting.length === 0) return;
      outbox.keep(traced, wanting, (notifierId, ended) => {
        // The notifier may have gone since, and this process may be about to.
        const lane = lanes.get(notifierId);
        if (isClosing && outlives) return;
        if (lane !== undefined) lane.add(traced, ended);
        else ofNobody({ ...traced, notifierId, ended }, { ...options, undelivered });
      });
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
    async undelivered(notifierId) {
      const list = await undelivered.list(notifierId);
      return list.length === 0 && !lanes.has(notifierId) ? null : list;
    },
    async redeliver(notifierId, signal) {
      const lane = lanes.get(notifierId);
      if (lane === undefined) throw notConfigured(notifierId);
      const mayGoOn = (): boolean => lanes.get(notifierId) === lane && !isClosing && signal?.aborted !== true;
      const redelivery = redeliver({
        ...{ notifierId, undelivered, clock, mayGoOn },
        send: (traced) => lane.again(traced),
      });
      redeliveries.add(redelivery);
      return redelivery.finally(() => redeliveries.delete(redelivery));
    },
    async close(withinMs) {
      isClosing = true;
      const timers: Timer[] = [];
      const giveUpIn = (ms: number): void => void timers.push(clock.timeout(ms, () => giveUp.abort()));
      const hasten = (): void => giveUpIn(hurriedMs);
      giveUpIn(withinMs);
      const release = onAbort(hurry, hasten);
      try {
        await Promise.allSettled(redeliveries);
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
function ofNobody(
  { notifierId, ended, ...traced }: LeftEvent,
  { clock, log, undelivered }: Pick<LaneOptions, 'clock' | 'log' | 'undelivered'>,
): void {
  const { event } = traced;
  const reason = 'its notifier is not configured any more';
  log.warn(
    { notifier: notifierId, event_id: event.id, event_type: event.type },
    `an event is undelivered: ${reason}`,
  );
  ended(undelivered.keep(notifierId, givenUp(traced, unsent(reason), clock)));
}

function notConfigured(notifierId: string): WaybillError {
  return new WaybillError('notifier_not_found', `there is no notifier "${notifierId}"`, {
    hint: 'check the id; what is undelivered of a notifier that was removed can be sent once it is configured again',
  });
}
