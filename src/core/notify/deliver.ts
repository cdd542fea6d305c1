import type { Clock } from '../lib/clock.ts';
import { onAbort } from '../lib/on-abort.ts';
import { briefRetryPolicy, type RetryPolicy } from '../lib/retry.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Event } from './event.ts';
import type { Attempted, Refused, Sink } from './sink.ts';

export interface DeliverOptions {
  clock: Clock;
  /** Returns a number in [0, 1). Set only by tests. */
  random?: () => number;
  policy?: RetryPolicy;
  /** Aborts the delivery immediately. */
  signal: AbortSignal;
  /** Lets the current try finish and prevents further ones. */
  hurry: AbortSignal;
  /** The span of the delivery. */
  trace?: TraceContext;
  onRetry?: (refused: Refused, attempt: number, pauseMs: number) => void;
}

export interface Delivery {
  delivered: boolean;
  tries: number;
  /** Why it was not delivered; null if it was. */
  reason: string | null;
  /** Whether the receiver permanently wants no more events. */
  gone: boolean;
  /** Whether the failure is temporary. false after a failure means that the receiver rejected this event. */
  isAway: boolean;
}

/** If a receiver requests a longer pause, the delivery fails: waiting would delay its other events. */
export const maxRetryAfterMs = 30_000;

/**
 * Delivers one event in up to four tries. The pauses have full jitter as in `retry.ts`, or the length that
 * the receiver requested. Never throws: a failure is returned with its reason.
 */
export async function deliver(sink: Sink, event: Event, options: DeliverOptions): Promise<Delivery> {
  const { clock, signal, hurry, policy = briefRetryPolicy, random = Math.random } = options;
  for (let attempt = 1; ; attempt += 1) {
    const answer = await oneTry(sink, event, options);
    if (answer.ok) return { delivered: true, tries: attempt, reason: null, gone: false, isAway: false };
    const { reason, gone = false, retry: isAway } = answer;
    const given: Delivery = { delivered: false, tries: attempt, reason, gone, isAway };
    const asked = answer.retryAfterMs ?? 0;
    if (!isAway || attempt > policy.retries || signal.aborted || hurry.aborted) return given;
    if (asked > maxRetryAfterMs)
      return { ...given, reason: `${reason} and asked to wait ${Math.round(asked / 1000)} s` };
    const jitter = Math.floor(random() * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)));
    const pauseMs = Math.max(asked, jitter);
    options.onRetry?.(answer, attempt, pauseMs);
    try {
      await clock.sleep(pauseMs, AbortSignal.any([signal, hurry]));
    } catch {
      return given;
    }
  }
}

/** One try, which ends after `sink.timeoutMs` even if the sink does not return. */
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
    // A defect of the sink. Its message may contain secrets.
    return { ok: false, reason: 'the sink failed unexpectedly', retry: false };
  } finally {
    timer.cancel();
  }
}
