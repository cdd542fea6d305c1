import type { LeaseTimes } from '../../context.ts';
import type { Clock } from '../../lib/clock.ts';
import { hasCode } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../../storage/storage.ts';
import { leaseLost } from './lease.ts';

/**
 * Renews a held lease and detects that the process was suspended. It starts before the lease is taken.
 *
 * Beats every `renewEveryMs`. A failed renewal is retried at the next beat. The lease counts as lost
 * `abortAfterMs` after the start of the last successful renewal, well before a contender may take it over. A
 * beat that comes later renews nothing, because the process was suspended and its decisions may be out of
 * date even if no other attempt took the lease.
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

  /** Aborts with `lease_lost` when the lease is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /**
   * Throws `lease_lost` if the lease is lost, or if the last renewal was more than `abortAfterMs` ago. Before
   * the lease is held, the last beat counts instead. Makes no requests, so that nothing can happen between
   * the check and the change that follows it.
   */
  check(): void {
    this.#loseIfTooLate();
    this.signal.throwIfAborted();
  }

  /**
   * Calls `renew` at every beat from now on. `sinceMs` is the monotonic time at which acquiring the lease
   * began.
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

  /** Stops the beats. Resolves once no renewal is running. */
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
        return; // The heartbeat was stopped.
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
 * How a contender proceeds while another attempt holds the lease: keep waiting, take it over (`stale`), or
 * fail (`busy`).
 */
type Verdict = 'wait' | 'stale' | 'busy';

/**
 * Returns a function that judges a lease held by another attempt. Call it at each poll with a text that
 * changes with every renewal and the monotonic time in milliseconds.
 *
 * It returns `stale` after `staleAfterMs` without a change, and `busy` after `waitMs` in total if any holder
 * has renewed in the meantime. A contender waits for a holder that never renews until it is stale. Otherwise,
 * contenders would always fail too early to take over from a dead host. The only side effect is to remember
 * earlier calls.
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
