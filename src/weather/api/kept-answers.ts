import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** An answer before it is encoded. */
interface Produced<A> {
  answer: A;
  /** Expiry, in milliseconds of the monotonic clock. */
  until: number;
  /** Whether it is the last good answer, because the database is unreachable. */
  isStandIn: boolean;
}

interface KeptAnswers<A> {
  /**
   * Returns the answer for this key: the cached one, the one in progress, or a new one from `make`. If the
   * database is unreachable, returns the last good answer while it is fresh, and passes the error to
   * `onStandIn`. Otherwise throws what `make` throws.
   */
  of(key: string, make: () => Promise<A>, onStandIn: (error: unknown) => void): Promise<Produced<A>>;
}

interface Keepable {
  /** Size of the body. */
  bytes: number;
  /** How long it may replace a failed read, in milliseconds; 0: not at all. */
  goodForMs: number;
}

export const maxKept = { entries: 1000, bytes: 32 * 1024 * 1024 };

/** @param cacheMs How long an answer is cached, in milliseconds; 0: not at all. */
export function newKeptAnswers<A extends Keepable>(clock: Clock, cacheMs: number): KeptAnswers<A> {
  const kept = new ByteCache<Produced<A>>(maxKept);
  const lastGood = new ByteCache<A>(maxKept);
  const underWay = new Map<string, Promise<Produced<A>>>();

  const produce = async (
    key: string,
    make: () => Promise<A>,
    onStandIn: (error: unknown) => void,
  ): Promise<Produced<A>> => {
    // Counted from before the read, so that a cached answer is never older than `cacheMs`.
    const now = clock.monotonic();
    const until = now + cacheMs;
    try {
      const answer = await make();
      const produced = { answer, until, isStandIn: false };
      if (cacheMs > 0) {
        // Its encoded forms are cached with it. Together they are no larger than the answer.
        const bytes = 2 * answer.bytes + key.length;
        kept.set(key, produced, { bytes, until });
        lastGood.set(key, answer, { bytes, until: now + answer.goodForMs });
      }
      return produced;
    } catch (error) {
      const answer = lastGood.get(key, clock.monotonic());
      if (answer === undefined || !isAway(error)) throw error;
      onStandIn(error);
      return { answer, until: 0, isStandIn: true };
    }
  };

  return {
    async of(key, make, onStandIn) {
      const known = kept.get(key, clock.monotonic()) ?? underWay.get(key);
      if (known !== undefined) return known;
      const started = produce(key, make, onStandIn).finally(() => underWay.delete(key));
      underWay.set(key, started);
      return started;
    },
  };
}

function isAway(error: unknown): boolean {
  return error instanceof WaybillError && error.code === 'database_unavailable';
}

/**
 * Caches values for a limited time and within size limits; evicts the oldest entry first. Times are
 * milliseconds of a monotonic clock.
 */
export class ByteCache<T> {
  readonly #entries = new Map<string, { value: T; bytes: number; until: number }>();
  readonly #most: { entries: number; bytes: number };
  #bytes = 0;

  constructor(most: { entries: number; bytes: number }) {
    this.#most = most;
  }

  get(key: string, now: number): T | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.until > now) return entry.value;
    this.#delete(key);
    return undefined;
  }

  /** Ignores a value that is larger than the whole cache. */
  set(key: string, value: T, { bytes, until }: { bytes: number; until: number }): void {
    this.#delete(key);
    if (bytes > this.#most.bytes) return;
    this.#entries.set(key, { value, bytes, until });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#most.bytes && this.#entries.size <= this.#most.entries) return;
      this.#delete(oldest);
    }
  }

  #delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }
}
