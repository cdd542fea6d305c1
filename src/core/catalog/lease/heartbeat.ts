import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../../storage/storage.ts';
import { leaseLost, type LeaseTimes } from './lease.ts';

/**
 * Renews a held lease and detects that the process was suspended. It starts before the lease is taken.
 */
export interface Heartbeat {
  /** Aborts with `lease_lost` when the lease is lost. */
  readonly signal: AbortSignal;
  /**
   * Throws `lease_lost` if the lease is lost, or if the last renewal was more than `abortAfterMs` ago. Before
   * the lease is held, the last beat counts instead. Makes no request, so that nothing can happen between the
   * check and the change that follows it.
   */
  check(): void;
  /** Calls `renew` at every beat from now on. `sinceMs` is the monotonic time when taking the lease began. */
  renewBy(renew: () => Promise<void>, sinceMs: number): void;
  /** Marks the lease as lost and returns the `lease_lost` error to throw. */
  lose(why: string): Error;
  /** Stops the beats. Resolves once no renewal is running. */
  stop(): Promise<void>;
}

/**
 * Beats every `renewEveryMs`. A failed renewal is retried at the next beat. The lease counts as lost
 * `abortAfterMs` after the start of the last successful renewal, well before a contender may take it over. A
 * beat that comes later renews nothing: the process was suspended, and its decisions may be out of date even
 * if no other attempt took the lease.
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
        log.warn({ storage: storage.label, err: error }, 'lease renewal failed');
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
    lose(isAwake ? 'it could not be renewed in time' : 'this process was suspended for too long');
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

/**
 * How a contender proceeds while another attempt holds the lease: keep waiting, take it over (`stale`), or
 * fail (`busy`).
 */
type Verdict = 'wait' | 'stale' | 'busy';

/**
 * Returns a function that judges a lease held by another attempt. Call it at each poll with a text that
 * changes with every renewal, and the monotonic time in milliseconds.
 *
 * `stale` after `staleAfterMs` without a change. `busy` after `waitMs` in total, if any holder renewed in the
 * meantime. A holder that never renewed is waited for until it is stale: otherwise contenders would always
 * fail too early to take over from a dead host. The only side effect is the memory of earlier calls.
 */
export function watchLease(times: LeaseTimes, startedMs: number): (text: string, nowMs: number) => Verdict {
  let last: string | undefined;
  let changedMs = startedMs;
  let sawLife = false;
  return (text, nowMs) => {
    if (text !== last) {
      sawLife ||= last !== undefined;
      last = text;
      changedMs = nowMs;
    }
    if (nowMs - changedMs >= times.staleAfterMs) return 'stale';
    return sawLife && nowMs - startedMs >= times.waitMs ? 'busy' : 'wait';
  };
}
