import type { TraceContext } from '../tracing/trace-context.ts';
import type { Event } from './event.ts';

/** A destination of events. Each kind has a file in `sinks/`. */
export interface Sink {
  /** The number of concurrent tries. With more than one, events may arrive out of order. */
  readonly concurrency: number;
  /** The timeout of one try, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Tries once. Failures are returned, never thrown, and contain no secrets. `trace` is the span of the
   * delivery, to be passed on to the receiver.
   */
  send(event: Event, signal: AbortSignal, trace?: TraceContext): Promise<Attempted>;
  close(): Promise<void>;
}

export type Attempted = { ok: true } | Refused;

export interface Refused {
  ok: false;
  /** Part of a sentence, such as `the receiver answered 503`. */
  reason: string;
  /** Whether another try may help. */
  retry: boolean;
  /** The pause that the receiver requested. */
  retryAfterMs?: number;
  /** Whether the receiver permanently wants no more events. */
  gone?: boolean;
}
