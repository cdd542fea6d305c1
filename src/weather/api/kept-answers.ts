import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** An answer to a question, before it is encoded. */
interface Produced<A> {
  answer: A;
  /** Milliseconds of the monotonic clock up to which it may be kept. */
  until: number;
  /** Whether it is the last good answer, while the database is away. */
  isStandIn: boolean;
}

interface KeptAnswers<A> {
  /**
   * The answer of this key: the one that is kept, the one that is under way, or else what `make` makes. If
   * the database is away and the last good answer is still good, that one stands in, and `onStandIn` learns
   * why. Throws what `make` throws.
   */
  of(key: string, make: () => Promise<A>, onStandIn: (error: unknown) => void): Promise<Produced<A>>;
}

interface Keepable {
  /** Size of the body. */
  bytes: number;
  /** Milliseconds for which it may stand in; 0: not at all. */
  goodForMs: number;
}

export const maxKept = { entries: 1000, bytes: 32 * 1024 * 1024 };

/** @param cacheMs How long an answer is kept; 0: not at all. */
export function newKeptAnswers<A extends Keepable>(clock: Clock, cacheMs: number): KeptAnswers<A> {
  const kept = new ByteCache<Produced<A>>(maxKept);
  const lastGood = new ByteCache<A>(maxKept);
  const underWay = new Map<string, Promise<Produced<A>>>();

  const produce = async (
    key: string,
    make: () => Promise<A>,
    onStandIn: (error: unknown) => void,
  ): Promise<Produced<A>> => {
    // Counted from before the read: a kept answer is never older than `cacheMs`.
    const now = clock.monotonic();
    const until = now + cacheMs;
    try {
      const answer = await make();
      const produced = { answer, until, isStandIn: false };
      if (cacheMs > 0) {
        // Its encoded forms, which are kept with it, are together no larger than itself.
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
 * Keeps values for a while and within bounds: what was put in first goes first. Time is milliseconds of a
 * monotonic clock.
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

  /** Keeps nothing that is larger than all that may be kept. */
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
