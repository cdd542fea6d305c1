import type { Clock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import type { Secrets } from './lib/secrets.ts';
import type { Occurrence } from './notify/event.ts';
import type { OpenStorage } from './storage/open-storage.ts';
import type { Tracer } from './tracing/span.ts';
import type { TraceContext } from './tracing/trace-context.ts';

/** Everything the core needs from outside. The CLI, the daemon or a test sets this up once. */
export interface CoreContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** Opens a source or destination. It is up to the caller to close it. */
  openStorage: OpenStorage;
  /**
   * A directory for data that can be computed again but should survive from one command to the next; default:
   * do not cache.
   */
  cacheDirectory?: string;
  signal?: AbortSignal;
  /** Durations for leases. Only set in tests. */
  leaseTimes?: LeaseTimes;
  /**
   * Sends notifications about something that has been committed, and returns right away. Default: send none.
   * `trace` is the span during which it happened.
   */
  notify?: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Creates the spans of destinations; default: no tracing. */
  tracer?: Tracer;
}

/** Durations in milliseconds. Each process measures them on its own monotonic clock. */
export interface LeaseTimes {
  /** How often the holder renews its lease. */
  renewEveryMs: number;
  /** How long the holder can go without renewing before it aborts. Must be less than `staleAfterMs`. */
  abortAfterMs: number;
  /**
   * How long a lease has to stay the same before another attempt may take it over. Clocks do not have to
   * agree for this.
   */
  staleAfterMs: number;
  /**
   * How long to wait for a holder that keeps renewing its lease. If it does not, wait until the lease is
   * stale.
   */
  waitMs: number;
  /** How often to look at a lease while waiting for it. */
  pollEveryMs: number;
}
