import type { Clock } from '../clock.ts';
import { hasCode } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Storage } from '../storage/storage.ts';
import { leaseLost, type LeaseTimes } from './lease.ts';

/**
 * Watches that this process runs, from the moment it begins to take a lease, and renews the lease as long as
 * it is held.
 */
export interface Heartbeat {
  /** Aborts with `lease_lost` when the lease is given up. */
  readonly signal: AbortSignal;
  /**
   * Throws `lease_lost` if the lease is lost, or the last renewal (before the lease is held: the last beat)
   * is longer ago than `abortAfterMs`. Makes no request, so that nothing can happen between it and the
   * mutation that it precedes.
   */
  check(): void;
  /**
   * Calls `renew` at every beat from now on. `sinceMs` is the monotonic time at which taking the lease began.
   */
  renewBy(renew: () => Promise<void>, sinceMs: number): void;
  /** Gives the lease up, and returns the `lease_lost` error to throw. */
  lose(why: string): Error;
  /** Ends the beats; resolves when no renewal is under way any more. */
  stop(): Promise<void>;
}

/**
 * Beats every `renewEveryMs`. A failed renewal is tried again at the next beat; `abortAfterMs` after the
 * start of the last successful one the lease is given up, well before a contender may take it over. A beat
 * that comes later than that renews nothing: the process was suspended, and what it decided may be out of
 * date even if nobody has taken the lease.
 */
export function startHeartbeat(
  storage: Pick<Storage, 'label'>,
  { clock, log, times }: { clock: Clock; log: Log; times: LeaseTimes },
): Heartbeat {
  const lost = new AbortController();
  const stopped = new AbortController();
  let renew = async (): Promise<void> => undefined;
  let renewedAt = clock.monotonic();
  let beatAt = renewedAt;
  const beating = beat();
  return { signal: lost.signal, check, renewBy, lose, stop };

  async function beat(): Promise<void> {
    for (;;) {
      try {
        await clock.sleep(times.renewEveryMs, stopped.signal);
      } catch {
        return; // Stopped.
      }
      if (lost.signal.aborted || loseIfTooLate()) return;
      beatAt = clock.monotonic();
      const startedAt = beatAt;
      try {
        await renew();
        renewedAt = startedAt;
      } catch (error) {
        if (hasCode(error, 'lease_lost')) lost.abort(error);
        log.warn({ storage: storage.label, err: error }, 'the lease could not be renewed');
      }
    }
  }

  function check(): void {
    loseIfTooLate();
    lost.signal.throwIfAborted();
  }

  function loseIfTooLate(): boolean {
    const now = clock.monotonic();
    if (now - renewedAt <= times.abortAfterMs && now - beatAt <= times.abortAfterMs) return false;
    const isAwake = now - beatAt <= times.abortAfterMs;
    lose(isAwake ? 'it could not be renewed in time' : 'this process did not run for too long');
    return true;
  }

  function renewBy(next: () => Promise<void>, sinceMs: number): void {
    renew = next;
    renewedAt = sinceMs;
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
