import type { LeaseTimes } from '../../context.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../../storage/storage.ts';
import { leaseLost } from './lease.ts';

/**
 * Renews a lease, and notices if the process was suspended. It starts even before the lease is taken.
 *
 * It tries to renew the lease every `renewEveryMs`. If that fails, it tries again the next time. The lease
 * counts as lost `abortAfterMs` after the start of the last renewal that worked, long before another attempt
 * may take it over. A beat that comes any later means that the process was suspended. The lease is not
 * renewed then: even if no one else took it, decisions made before the suspension may be out of date.
 */
export class Heartbeat {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #options: { clock: Clock; log: Log; times: LeaseTimes };
  readonly #lost = new AbortController();
  readonly #stopped = new AbortController();
  readonly #beating: Promise<void>;
  #renew = async (): Promise<void> => undefined;
  #renewedAt: number;
  #beatAt: number;

  constructor(storage: Pick<Storage, 'label'>, options: { clock: Clock; log: Log; times: LeaseTimes }) {
    this.#storage = storage;
    this.#options = options;
    this.#renewedAt = options.clock.monotonic();
    this.#beatAt = this.#renewedAt;
    this.#beating = this.#beat();
  }

  /** Aborts with a `lease_lost` error when the lease is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /**
   * Throws `lease_lost` if the lease is lost or was last renewed more than `abortAfterMs` ago. Before the
   * lease is taken, the time of the last beat counts instead. Makes no requests, so nothing can happen
   * between this check and the change after it.
   */
  check(): void {
    this.#loseIfTooLate();
    this.signal.throwIfAborted();
  }

  /**
   * Makes every beat call `renew` from now on. `sinceMs` is the time, on the monotonic clock, when we began
   * to take the lease.
   */
  renewBy(renew: () => Promise<void>, sinceMs: number): void {
    this.#renew = renew;
    this.#renewedAt = sinceMs;
  }

  /** Marks the lease as lost and returns the `lease_lost` error to throw. */
  lose(why: string): Error {
    const error = leaseLost(this.#storage, why);
    this.#lost.abort(error);
    return error;
  }

  /** Stops renewing. Resolves when the last renewal is finished. */
  async stop(): Promise<void> {
    this.#stopped.abort('stopped');
    await this.#beating;
  }

  async #beat(): Promise<void> {
    const { clock, log, times } = this.#options;
    for (;;) {
      try {
        await clock.sleep(times.renewEveryMs, this.#stopped.signal);
      } catch {
        return; // The heartbeat has been stopped.
      }
      if (this.signal.aborted || this.#loseIfTooLate()) return;
      const startedAt = clock.monotonic();
      this.#beatAt = startedAt;
      try {
        await this.#renew();
        this.#renewedAt = startedAt;
      } catch (error) {
        if (hasCode(error, 'lease_lost')) this.#lost.abort(error);
        log.warn({ storage: this.#storage.label, err: error }, 'lease renewal failed');
      }
    }
  }

  #loseIfTooLate(): boolean {
    const { clock, times } = this.#options;
    const now = clock.monotonic();
    const isAwake = now - this.#beatAt <= times.abortAfterMs;
    if (isAwake && now - this.#renewedAt <= times.abortAfterMs) return false;
    this.lose(isAwake ? 'it could not be renewed in time' : 'this process was suspended for too long');
    return true;
  }
}

/**
 * The next step while another attempt has the lease: keep waiting, take the lease over (`stale`), or give up
 * (`busy`).
 */
type LeaseVerdict = 'wait' | 'stale' | 'busy';

/**
 * Returns a function that decides how to deal with a lease that another attempt holds. Call it each time you
 * look at the lease. Pass a string that changes with each renewal, and the monotonic time in milliseconds.
 *
 * The verdict is `stale` if the string has not changed for `staleAfterMs`. It is `busy` after `waitMs`, but
 * only if the lease was renewed in the meantime. If it never was, the holder may be on a dead host, and
 * giving up after `waitMs` would mean that its lease is never taken over. The function has no side effects
 * except remembering earlier calls.
 */
export function watchLease(
  times: LeaseTimes,
  startedMs: number,
): (text: string, nowMs: number) => LeaseVerdict {
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
