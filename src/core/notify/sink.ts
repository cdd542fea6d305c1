import type { TraceContext } from '../tracing/trace-context.ts';
import type { Event } from './event.ts';

/** Where events go; one kind a file in `sinks/`. */
export interface Sink {
  /** Tries at once. More than one gives up the order. */
  readonly concurrency: number;
  /** The longest that one try may take, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * One try. A failure is returned, in words without a secret, and never thrown. `trace` is the span of the
   * delivery, for whoever receives it.
   */
  send(event: Event, signal: AbortSignal, trace?: TraceContext): Promise<Attempted>;
  close(): Promise<void>;
}

export type Attempted = { ok: true } | Refused;

export interface Refused {
  ok: false;
  /** Half a sentence: `the receiver answered 503`. */
  reason: string;
  /** Whether another try may help. */
  retry: boolean;
  /** The receiver asked to wait this long. */
  retryAfterMs?: number;
  /** The receiver wants nothing more, ever. */
  gone?: boolean;
}
