import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Storage } from '../storage/storage.ts';
import { leaseLost, type LeaseTimes } from './lease.ts';

/** Renews a lease as long as it is held. */
export interface Heartbeat {
  /** Aborts with `lease_lost` when the lease is given up. */
  readonly signal: AbortSignal;
  /** Throws `lease_lost` if the lease is lost, or the last renewal is longer ago than `abortAfterMs`. */
  check(): void;
  /** Gives the lease up, and returns the `lease_lost` error to throw. */
  lose(why: string): Error;
  /** Ends the renewals; resolves when none is under way any more. */
  stop(): Promise<void>;
}

/**
 * Calls `renew` every `renewEveryMs`. A failed renewal is tried again at the next beat; `abortAfterMs` after
 * the start of the last successful one the lease is given up, well before a contender may take it over.
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
        return; // Stopped during the pause.
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
