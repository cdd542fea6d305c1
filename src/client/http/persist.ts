import type { Clock } from '../../core/lib/clock.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';

/** How long a client retries. Times are in milliseconds. */
export interface Patience {
  /** The total time, counted from the first failure. */
  forMs: number;
  /** The minimum number of tries, regardless of their duration. */
  tries: number;
  /** The upper bound of the first pause. It doubles with each try up to `capMs`. */
  baseMs: number;
  capMs: number;
}

export const defaultPatience: Patience = { forMs: 600_000, tries: 5, baseMs: 500, capMs: 30_000 };

export interface Persistence {
  patience: Patience;
  clock: Clock;
  signal: AbortSignal | undefined;
  /** Whether the daemon has responded before. */
  wasReached: () => boolean;
  onRetry: ((failure: WaybillError, pauseMs: number) => void) | undefined;
  /** A number in [0, 1). */
  random: () => number;
}

/**
 * Retries `work` while it fails with a transient error. Each pause is the time that the server requests, if
 * any, plus full jitter. If the daemon was never reached, the URL is probably wrong, so only `tries` tries
 * are made. Throws the last error, or the reason of `signal`.
 */
export async function persist<T>(options: Persistence, work: () => Promise<T>): Promise<T> {
  const { patience, clock, signal, random } = options;
  let since: number | null = null;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (failure) {
      if (signal?.aborted === true) throw signal.reason;
      if (!(failure instanceof WaybillError) || !failure.retryable) throw failure;
      since ??= clock.monotonic();
      const { baseMs, capMs, forMs } = patience;
      const askedMs = (failure.retryAfterSeconds ?? 0) * 1000;
      const pauseMs = askedMs + Math.floor(random() * Math.min(capMs, baseMs * 2 ** (tries - 1)));
      const isWrongPlace = hasCode(failure, 'daemon_unreachable') && !options.wasReached();
      const isOverdue = clock.monotonic() - since + pauseMs > forMs;
      if (tries >= patience.tries && (isWrongPlace || isOverdue)) throw failure;
      options.onRetry?.(failure, pauseMs);
      await clock.sleep(pauseMs, signal);
    }
  }
}
