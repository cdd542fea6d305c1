import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Storage } from '../storage/storage.ts';
import { leaseLost, type LeaseTimes } from './lease.ts';

/** The renewals of a lease, while it is held. */
export interface Heartbeat {
  readonly signal: AbortSignal;
  check(): void;
  lose(why: string): Error;
  stop(): Promise<void>;
}

/**
 * Calls `renew` every `renewEveryMs`. A failed renewal is tried again at the next beat; after `abortAfterMs`
 * without one the lease is given up, well before a contender may take it over.
 */
export function startHeartbeat(
  storage: Pick<Storage, 'label'>,
  { clock, log, times }: { clock: Clock; log: Log; times: LeaseTimes },
  renew: () => Promise<void>,
): Heartbeat {
  const lost = new AbortController();
  const stopped = new AbortController();
  let renewedAt = clock.monotonic();
  const beating = beat();
  return { signal: lost.signal, check, lose, stop };

  async function beat(): Promise<void> {
    while (!stopped.signal.aborted && !lost.signal.aborted) {
      try {
        await clock.sleep(times.renewEveryMs, stopped.signal);
      } catch {
        return; // Stopped while asleep.
      }
      const startedAt = clock.monotonic();
      try {
        await renew();
        renewedAt = startedAt;
      } catch (error) {
        log.warn({ storage: storage.label, err: error }, 'the lease could not be renewed');
      }
      if (clock.monotonic() - renewedAt > times.abortAfterMs) lose('it could not be renewed in time');
    }
  }

  function check(): void {
    if (clock.monotonic() - renewedAt > times.abortAfterMs) lose('this process did not run for too long');
    lost.signal.throwIfAborted();
  }

  function lose(why: string): Error {
    const error = leaseLost(storage, why);
    lost.abort(error);
    return error;
  }

  async function stop(): Promise<void> {
    stopped.abort('stopped');
    await beating;
  }
}
