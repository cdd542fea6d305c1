import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';

const retryEveryMs = 5_000;

/** What the work that goes on for as long as a pipeline is configured has in common. */
export interface Enduring {
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/**
 * Does the work again every few seconds until it succeeds. A series of failures is logged once, at its first;
 * that the queue is away is its own to log. Rejects with the reason of `signal` once that aborts.
 */
export async function persist<T>(
  { clock, log, signal }: Enduring,
  fields: Record<string, unknown>,
  work: () => Promise<T>,
): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (isFirst && !hasCode(error, 'queue_unavailable') && !hasCode(error, 'shutting_down'))
        log.error({ ...fields, err: error }, 'a run could not be started by itself; it is tried again');
    }
    await clock.sleep(retryEveryMs, signal);
  }
}
