import type { Clock } from '../../core/lib/clock.ts';

export interface RetentionOptions<T> {
  clock: Clock;
  /** How long an item is kept, in milliseconds. */
  retentionMs: number;
  /** Called once for each item whose time is over. Must not reject. */
  onExpire: (item: T) => Promise<void>;
}

// A longer timer than 24.8 days would fire at once.
const longestSleepMs = 3_600_000;

/** Keeps each item for the same time, and then hands it to `onExpire`. */
export class Retention<T> {
  readonly #options: RetentionOptions<T>;
  /** In the order of expiry. Times are monotonic milliseconds. */
  readonly #kept: { item: T; expiresAt: number }[] = [];
  readonly #expiring = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #sweeping: Promise<void> | undefined;

  constructor(options: RetentionOptions<T>) {
    this.#options = options;
  }

  /**
   * @param ageMs For how long it has been kept already. Items must come in the order of their expiry.
   */
  keep(item: T, ageMs = 0): void {
    const { clock, retentionMs } = this.#options;
    const leftMs = Math.min(Math.max(retentionMs - ageMs, 0), retentionMs);
    this.#kept.push({ item, expiresAt: clock.monotonic() + leftMs });
    this.#sweeping ??= this.#sweep();
  }

  /** Hands over what has expired by now; called before items are looked at, so that none is seen too late. */
  expire(): void {
    const now = this.#options.clock.monotonic();
    const kept = this.#kept.findIndex(({ expiresAt }) => expiresAt > now);
    for (const { item } of this.#kept.splice(0, kept === -1 ? this.#kept.length : kept)) {
      const work: Promise<void> = this.#options.onExpire(item).finally(() => this.#expiring.delete(work));
      this.#expiring.add(work);
    }
  }

  /** Hands over no more; resolves when no `onExpire` is under way. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#sweeping, ...this.#expiring]);
  }

  /** Wakes when the next item expires, so that it goes even if nobody asks. */
  async #sweep(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#closing;
    for (let [next] = this.#kept; next !== undefined && !signal.aborted; [next] = this.#kept) {
      const pauseMs = Math.min(Math.max(next.expiresAt - clock.monotonic(), 0), longestSleepMs);
      await clock.sleep(pauseMs, signal).catch(() => undefined);
      if (!isAborted(signal)) this.expire();
    }
    this.#sweeping = undefined;
  }
}

// A function, because the compiler takes the loop's own check to hold until here.
const isAborted = (signal: AbortSignal): boolean => signal.aborted;
