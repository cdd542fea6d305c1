import type { Clock } from '../lib/clock.ts';
import { onAbort } from '../lib/on-abort.ts';
import { briefRetryPolicy, type RetryPolicy } from '../lib/retry.ts';
import { type TraceContext, traceOf } from '../tracing/trace-context.ts';
import type { Event, TracedEvent } from './event.ts';
import type { UndeliveredEvents } from './outbox.ts';
import type { Attempted, Refused, Sink } from './sink.ts';

interface DeliverOptions {
  clock: Clock;
  /** Returns a random number in [0, 1). Only set in tests. */
  random?: () => number;
  policy?: RetryPolicy;
  /** Aborts the delivery immediately. */
  signal: AbortSignal;
  /** Prevents further attempts, but lets the current one finish. */
  stopping: AbortSignal;
  /** The delivery's span. */
  trace?: TraceContext;
  onRetry?: (refused: Refused, attempt: number, pauseMs: number) => void;
}

export interface Delivery {
  delivered: boolean;
  tries: number;
  /** Why the event was not delivered; null if it was. */
  reason: string | null;
  /** Whether the receiver permanently refuses further events. */
  gone: boolean;
  /** Whether the failure is temporary. If false after a failure, the receiver rejected this event. */
  isTemporary: boolean;
}

/**
 * If a receiver requests a longer delay, the delivery fails, because waiting would hold up its other events.
 */
const maxRetryAfterMs = 30_000;

/**
 * Delivers one event in up to four attempts. The delays between them use full jitter as in `retry.ts`, unless
 * the receiver requests a specific delay. Never throws: a failure is returned with its reason.
 */
export async function deliver(sink: Sink, event: Event, options: DeliverOptions): Promise<Delivery> {
  const { clock, signal, stopping, policy = briefRetryPolicy, random = Math.random } = options;
  for (let attempt = 1; ; attempt += 1) {
    const answer = await oneTry(sink, event, options);
    if (answer.ok) return { delivered: true, tries: attempt, reason: null, gone: false, isTemporary: false };
    const { reason, gone = false, retry: isTemporary } = answer;
    const failure: Delivery = { delivered: false, tries: attempt, reason, gone, isTemporary };
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

/** Makes one attempt, which ends after `sink.timeoutMs` even if the sink does not return. */
async function oneTry(
  sink: Sink,
  event: Event,
  { clock, signal, trace }: DeliverOptions,
): Promise<Attempted> {
  if (signal.aborted) return { ok: false, reason: 'there was no time left for it', retry: true };
  const ended = new AbortController();
  const timer = clock.timeout(sink.timeoutMs, () => ended.abort());
  const both = AbortSignal.any([signal, ended.signal]);
  const tooLate = new Promise<Attempted>((resolve) => {
    onAbort(both, () =>
      resolve(
        signal.aborted
          ? { ok: false, reason: 'there was no time left for it', retry: true }
          : { ok: false, reason: `no answer within ${sink.timeoutMs} ms`, retry: true },
      ),
    );
  });
  try {
    return await Promise.race([tooLate, sink.send(event, both, trace)]);
  } catch {
    // This is a bug in the sink. Its message may contain secrets.
    return { ok: false, reason: 'the sink failed unexpectedly', retry: false };
  } finally {
    timer.cancel();
  }
}

/*
 * Redelivers undelivered events.
 */

export interface Redelivery {
  delivered: number;
  /** The events that failed again, in order. They remain undelivered. */
  failed: { eventId: string; type: string; reason: string }[];
  /** The number of events that are still undelivered. */
  left: number;
  ended: RedeliveryEnd;
}

/**
 * The reason why a redelivery ended.
 *
 * - `all_tried`: every event was attempted.
 * - `failing`: the receiver is unreachable, so the remaining events were skipped.
 * - `time_over`: `maxDurationMs` elapsed before all events were sent.
 * - `stopping`: the process or the notifier is stopping.
 */
type RedeliveryEnd = 'all_tried' | 'failing' | 'time_over' | 'stopping';

interface RedeliverOptions {
  notifierId: string;
  undelivered: UndeliveredEvents;
  clock: Clock;
  /** Delivers one event with the usual retries, as part of its original trace. */
  send: (traced: TracedEvent) => Promise<Delivery>;
  /** Returns true if another event may be started. */
  mayContinue: () => boolean;
}

/** No event is started after this time, because a client is waiting for the response. */
const maxDurationMs = 20_000;

/**
 * Redelivers undelivered events one at a time, in the order in which they happened. Delivered events are
 * removed. Events that fail keep their position. If the receiver rejects an event, redelivery continues with
 * the next one. If the receiver is unreachable, redelivery ends. An event is removed only after it was
 * delivered, so it may be delivered twice if the process exits in between. Throws `redelivery_running`, and
 * `queue_unavailable` if the events cannot be read.
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
    await undelivered.keep(notifierId, { ...one, tries, reason, givenUpAt });
    done.failed.push({ eventId: event.id, type: event.type, reason });
    if (delivery.isTemporary || delivery.gone)
      return { ...done, ended: mayContinue() ? 'failing' : 'stopping' };
  }
  return { ...done, ended: 'all_tried' };
}
