import type { Clock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import type { Secrets } from './lib/secrets.ts';
import type { Occurrence } from './notify/event.ts';
import type { OpenStorage } from './storage/open-storage.ts';
import type { Tracer } from './tracing/span.ts';
import type { TraceContext } from './tracing/trace-context.ts';

/** The core's external dependencies, wired up once by the CLI, the daemon or a test. */
export interface CoreContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** Opens a source or destination. The caller closes it. */
  openStorage: OpenStorage;
  /** A directory for data that can be recomputed, kept between commands. If absent, there is no cache. */
  cacheDirectory?: string;
  signal?: AbortSignal;
  /** Lease timing. Only set in tests. */
  leaseTimes?: LeaseTimes;
  /**
   * Reports a committed occurrence and returns immediately. If absent, no notifications are sent. `trace` is
   * the span in which the occurrence happened.
   */
  notify?: (occurrence: Occurrence, trace?: TraceContext) => void;
  /** Creates destination spans. If absent, nothing is traced. */
  tracer?: Tracer;
}

/** Durations in milliseconds, each measured on the monotonic clock of the process that waits. */
export interface LeaseTimes {
  /** The holder's renewal interval. */
  renewEveryMs: number;
  /** The holder aborts after this time without a renewal. Must be less than `staleAfterMs`. */
  abortAfterMs: number;
  /** A contender takes over a lease that has not changed for this time. Clocks need not be synchronized. */
  staleAfterMs: number;
  /**
   * How long a contender waits for a holder that keeps renewing. It waits for any other holder until the
   * lease is stale.
   */
  waitMs: number;
  /** A contender's polling interval. */
  pollEveryMs: number;
}
