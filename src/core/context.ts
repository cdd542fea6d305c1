import type { Clock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import type { Secrets } from './lib/secrets.ts';
import type { Occurrence } from './notify/event.ts';
import type { OpenStorage } from './storage/open-storage.ts';
import type { Tracer } from './tracing/span.ts';
import type { TraceContext } from './tracing/trace-context.ts';

/** Everything from outside that the core works with; wired once by the CLI, the daemon or a test. */
export interface CoreContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** Opens a source or destination. The caller closes it. */
  openStorage: OpenStorage;
  /** Directory for data that can be recomputed, kept between commands; absent: no cache. */
  cacheDirectory?: string;
  signal?: AbortSignal;
  /** The times of leases. Set only by tests. */
  leaseTimes?: LeaseTimes;
  /**
   * Reports a committed occurrence and returns immediately. Without it, no notification is sent. `trace` is
   * the span in which it happened.
   */
  notify?: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Creates the spans of destinations. Without it, nothing is traced. */
  tracer?: Tracer;
}

/** Durations in milliseconds, each measured on the monotonic clock of the process that waits. */
export interface LeaseTimes {
  /** The holder's renewal interval. */
  renewEveryMs: number;
  /** The holder aborts after this time without a renewal. Less than `staleAfterMs`. */
  abortAfterMs: number;
  /** A contender takes over a lease that did not change for this time. Clocks need not agree. */
  staleAfterMs: number;
  /** How long a contender waits for a holder that renews. It waits for any other until it is stale. */
  waitMs: number;
  /** A contender's polling interval. */
  pollEveryMs: number;
}
