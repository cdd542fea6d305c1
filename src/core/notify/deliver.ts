import type { Clock } from '../lib/clock.ts';
import { onAbort } from '../lib/on-abort.ts';
import { briefRetryPolicy, type RetryPolicy } from '../lib/retry.ts';
import { type TraceContext, traceOf } from '../tracing/trace-context.ts';
import type { Event, TracedEvent } from './event.ts';
import type { UndeliveredEvents } from './outbox.ts';
import type { SendResult, Sink, SinkRefusal } from './sink.ts';

interface DeliverOptions {
  clock: Clock;
  /** Returns a random number in [0, 1). Only set in tests. */
  random?: () => number;
  policy?: RetryPolicy;
  /** Stops the delivery right away. */
  signal: AbortSignal;
  /** Lets the current attempt finish, but does not start another one. */
  stopping: AbortSignal;
  trace?: TraceContext;
  onRetry?: (refused: SinkRefusal, attempt: number, pauseMs: number) => void;
}

export interface DeliveryResult {
  delivered: boolean;
  tries: number;
  /** The reason why the event was not delivered; null if it was. */
  reason: string | null;
  /** Whether the receiver has said that it never wants any more events. */
  gone: boolean;
  /** Whether this is a temporary failure. If not, the receiver refused this particular event. */
  isTemporary: boolean;
}

/** If a receiver wants us to wait any longer, the delivery fails. Waiting would hold up other events. */
const maxRetryAfterMs = 30_000;

/**
 * Delivers an event. If that fails, tries up to three more times, with full jitter between attempts as in
 * `retry.ts`, or as long as the receiver asks us to wait. Never throws; a failure is returned with its
 * reason.
 */
export async function deliver(sink: Sink, event: Event, options: DeliverOptions): Promise<DeliveryResult> {
  const { clock, signal, stopping, policy = briefRetryPolicy, random = Math.random } = options;
  for (let attempt = 1; ; attempt += 1) {
    const answer = await tryOnce(sink, event, options);
    if (answer.ok) return { delivered: true, tries: attempt, reason: null, gone: false, isTemporary: false };
    const { reason, gone = false, retry: isTemporary } = answer;
    const failure: DeliveryResult = { delivered: false, tries: attempt, reason, gone, isTemporary };
    const requestedMs = answer.retryAfterMs ?? 0;
    if (!isTemporary || attempt > policy.retries || signal.aborted || stopping.aborted) return failure;
    if (requestedMs > maxRetryAfterMs)
      return { ...failure, reason: `${reason} and asked to wait ${Math.round(requestedMs / 1000)} s` };
    const jitter = Math.floor(random() * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)));
    const pauseMs = Math.max(requestedMs, jitter);
    options.onRetry?.(answer, attempt, pauseMs);
    try {
      await clock.sleep(pauseMs, AbortSignal.any([signal, stopping]));
    } catch {
      return failure;
    }
  }
}

/** Makes a single attempt. It ends after `sink.timeoutMs`, even if the sink does not. */
async function tryOnce(
  sink: Sink,
  event: Event,
  { clock, signal, trace }: DeliverOptions,
): Promise<SendResult> {
  if (signal.aborted) return { ok: false, reason: 'the notifier was stopping', retry: true };
  const attemptAbort = new AbortController();
  let end: (reason: string) => void = () => undefined;
  const tooLate = new Promise<SendResult>((resolve) => {
    end = (reason) => {
      resolve({ ok: false, reason, retry: true });
      attemptAbort.abort();
    };
  });
  const timer = clock.timeout(sink.timeoutMs, () => end(`no answer within ${sink.timeoutMs} ms`));
  // Not AbortSignal.any: `signal` lives as long as the process and would keep a reference to each attempt.
  const release = onAbort(signal, () => end('the notifier was stopping'));
  try {
    return await Promise.race([tooLate, sink.send(event, attemptAbort.signal, trace)]);
  } catch {
    // There is a bug in the sink. Do not repeat its message, because there could be secrets in it.
    return { ok: false, reason: 'the sink failed unexpectedly', retry: false };
  } finally {
    timer.cancel();
    release();
  }
}

/*
 * Tries again to deliver events that could not be delivered earlier.
 */

export interface Redelivery {
  delivered: number;
  /** The events that failed again, in order. They can be redelivered later. */
  failed: { eventId: string; type: string; reason: string }[];
  /** How many events are still undelivered. */
  left: number;
  ended: RedeliveryEnd;
}

/**
 * The reason why a redelivery ended.
 *
 * - `all_tried`: there was an attempt for every event.
 * - `failing`: the receiver cannot be reached, so the other events were skipped.
 * - `time_over`: not all events could be sent within `maxDurationMs`.
 * - `stopping`: the process or the notifier is being stopped.
 */
type RedeliveryEnd = 'all_tried' | 'failing' | 'time_over' | 'stopping';

interface RedeliverOptions {
  notifierId: string;
  undelivered: UndeliveredEvents;
  clock: Clock;
  /** Delivers an event with the usual retries. The delivery is added to the event's original trace. */
  send: (traced: TracedEvent) => Promise<DeliveryResult>;
  /** Reports whether there is time for another event. */
  mayContinue: () => boolean;
}

/** After this long, no other event is started, because a client is waiting for a response. */
const maxDurationMs = 20_000;

/**
 * Delivers events that failed earlier, one by one, in the order they happened. An event that is delivered is
 * removed, and one that fails again keeps its place. If the receiver refuses an event, this goes on to the
 * next one; if it cannot be reached, this ends. Since an event is removed after it was delivered, it can
 * arrive twice if the process exits in between. Throws `redelivery_running`, or `queue_unavailable` if the
 * events cannot be read.
 */
export async function redeliver(options: RedeliverOptions): Promise<Redelivery> {
  const { notifierId, undelivered } = options;
  const claim = await undelivered.claim(notifierId);
  try {
    const { delivered, failed, ended } = await sendAll(options);
    const left = (await undelivered.counts()).get(notifierId) ?? 0;
    return { delivered, failed, left, ended };
  } finally {
    await claim.release();
  }
}

async function sendAll({
  notifierId,
  undelivered,
  clock,
  send,
  mayContinue,
}: RedeliverOptions): Promise<Omit<Redelivery, 'left'>> {
  const began = clock.monotonic();
  const done: Omit<Redelivery, 'left' | 'ended'> = { delivered: 0, failed: [] };
  for (const one of await undelivered.list(notifierId)) {
    const { event } = one;
    if (!mayContinue()) return { ...done, ended: 'stopping' };
    if (clock.monotonic() - began > maxDurationMs) return { ...done, ended: 'time_over' };
    const delivery = await send({ event, ...traceOf(one) });
    if (delivery.delivered) {
      await undelivered.remove(notifierId, event.id);
      done.delivered += 1;
      continue;
    }
    const reason = delivery.reason ?? 'unknown';
    const tries = one.tries + delivery.tries;
    const givenUpAt = clock.now().toISOString();
    await undelivered.store(notifierId, { ...one, tries, reason, givenUpAt });
    done.failed.push({ eventId: event.id, type: event.type, reason });
    if (delivery.isTemporary || delivery.gone)
      return { ...done, ended: mayContinue() ? 'failing' : 'stopping' };
  }
  return { ...done, ended: 'all_tried' };
}
