import type { Clock } from '../clock.ts';
import { onAbort } from '../on-abort.ts';
import { briefRetryPolicy, type RetryPolicy } from '../retry.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Event } from './event.ts';
import type { Attempted, Refused, Sink } from './sink.ts';

export interface DeliverOptions {
  clock: Clock;
  /** A number in [0, 1); only tests pass their own. */
  random?: () => number;
  policy?: RetryPolicy;
  /** Gives up at once. */
  signal: AbortSignal;
  /** Lets the try that runs come to its end, and makes no other. */
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
  /** The receiver wants nothing more, ever. */
  gone: boolean;
  /** It was not delivered for what may pass; otherwise the receiver refused this event. */
  isAway: boolean;
}

/** A receiver that asks for a longer pause is given up: waiting would hold up its other events. */
export const longestRetryAfterMs = 30_000;

/**
 * Delivers one event, in up to four tries with a pause drawn from the full jitter of `retry.ts`, or as long
 * as the receiver asked. Never throws: a failure is returned with its reason.
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
    if (asked > longestRetryAfterMs)
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

/** One try that ends in time, whatever the sink does. */
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
    // A defect of the sink; its message may hold anything.
    return { ok: false, reason: 'the sink broke', retry: false };
  } finally {
    timer.cancel();
  }
}
