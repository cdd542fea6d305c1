import type { Timer } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import { onAbort } from '../lib/on-abort.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { redeliver, type Redelivery } from './deliver.ts';
import { eventOf, type Occurrence, pipelineOfEvent } from './event.ts';
import { eventIdOf } from './event-id.ts';
import { givenUp, type Lane, laneOf, type LaneOptions, unsent } from './lane.ts';
import {
  type LeftEvent,
  noOutbox,
  type Outbox,
  type Undelivered,
  undeliveredBook,
  type UndeliveredEvents,
} from './outbox.ts';
import type { NotifierConfig, OpenNotifier } from './sink-kinds.ts';

export interface NotifierOptions extends Pick<
  LaneOptions,
  'clock' | 'log' | 'onOutcome' | 'onPostponed' | 'policy' | 'random' | 'tracer'
> {
  notifiers: readonly OpenNotifier[];
  /** Stores events until their delivery has ended. Default: none. */
  outbox?: Outbox;
  /** Stores the events whose delivery failed. Default: in memory. */
  undelivered?: UndeliveredEvents;
  /** Aborts when the process is stopping. Each event then gets one try. */
  hurry?: AbortSignal;
}

export interface Notifier {
  /**
   * Creates an event and queues it for every subscribed notifier. `trace` is the parent of the deliveries'
   * spans. Returns without waiting.
   */
  notify(occurrence: Occurrence, trace?: TraceContext): void;
  /**
   * Replaces the notifiers. A notifier that remains keeps its waiting events and sends them with the new
   * configuration; running deliveries continue with the old one. A removed notifier gets no new events and
   * delivers the ones it has.
   */
  replace(notifiers: readonly OpenNotifier[]): void;
  /**
   * The undelivered events of a notifier, in the order in which they happened. null if the notifier is not
   * configured and has none. Throws `queue_unavailable` if they cannot be read.
   */
  undelivered(notifierId: string): Promise<Undelivered[] | null>;
  /**
   * Sends the undelivered events again; see `redeliver.ts`. Starts no further event after `signal` aborts.
   * Throws `notifier_not_found` if the notifier is not configured, `redelivery_running` or
   * `queue_unavailable`.
   */
  redeliver(notifierId: string, signal?: AbortSignal): Promise<Redelivery>;
  /**
   * Waits until all deliveries have ended, for at most `withinMs` milliseconds, or ten seconds once `hurry`
   * aborts. Then drops the remaining events and closes the sinks. Later events are dropped.
   */
  close(withinMs: number): Promise<void>;
}

const hurriedMs = 10_000;

/**
 * Each notifier has its own queue, so that a dead receiver delays neither publications nor other receivers.
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
    else keepUndelivered(left, { ...options, undelivered });
  });
  return {
    notify(occurrence, trace = {}) {
      const traced = { event: eventOf(occurrence, eventIdOf(occurrence), clock.now()), ...trace };
      const wanting = [...lanes].filter(([, lane]) => wants(lane.config(), occurrence)).map(([id]) => id);
      if (wanting.length === 0) return;
      outbox.keep(traced, wanting, (notifierId, ended) => {
        // The notifier may have been removed in the meantime, and this process may be stopping.
        const lane = lanes.get(notifierId);
        if (isClosing && outlives) return;
        if (lane !== undefined) lane.add(traced, ended);
        else keepUndelivered({ ...traced, notifierId, ended }, { ...options, undelivered });
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
        notifierId,
        undelivered,
        clock,
        mayGoOn,
        send: (traced) => lane.resend(traced),
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

/** Whether a notifier is subscribed to the occurrence. Pure. */
export function wants({ events, pipelines }: NotifierConfig, occurrence: Occurrence): boolean {
  if (!(events as readonly string[]).includes(occurrence.type)) return false;
  const pipeline = pipelineOfEvent(occurrence);
  return pipelines === null || pipeline === null || pipelines.includes(pipeline);
}

/** Stores an event whose notifier is no longer configured as undelivered. */
function keepUndelivered(
  { notifierId, ended, ...traced }: LeftEvent,
  { clock, log, undelivered }: Pick<LaneOptions, 'clock' | 'log' | 'undelivered'>,
): void {
  const { event } = traced;
  const reason = 'its notifier is no longer configured';
  log.warn(
    { notifier: notifierId, event_id: event.id, event_type: event.type },
    `an event is undelivered: ${reason}`,
  );
  ended(undelivered.keep(notifierId, givenUp(traced, unsent(reason), clock)));
}

function notConfigured(notifierId: string): WaybillError {
  return new WaybillError('notifier_not_found', `there is no notifier "${notifierId}"`, {
    hint: 'check the id; to send the undelivered events of a removed notifier, configure it again first',
  });
}
