import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/** A response that has not been compressed yet. */
interface Produced<A> {
  answer: A;
  /** When to discard it, in monotonic milliseconds. */
  until: number;
  /** True if this is an old response, used because the database is unreachable. */
  isStale: boolean;
}

interface AnswerCache<A> {
  /**
   * Returns the response for this key. Takes it from the cache, waits if it is already being created, or
   * calls `make`. If the database is unreachable, falls back to the last good response if that is not too
   * old, and passes the error to `onStale`. Otherwise throws the errors of `make`.
   */
  of(key: string, make: () => Promise<A>, onStale: (error: unknown) => void): Promise<Produced<A>>;
}

interface CacheableAnswer {
  /** The size of the body in bytes. */
  bytes: number;
  /**
   * How long this response may be used while the database is unreachable, in milliseconds. 0 to never use it.
   */
  staleIfErrorMs: number;
}

export const maxKept = { entries: 1000, bytes: 32 * 1024 * 1024 };

/** @param cacheMs How long to cache a response, in milliseconds. 0 disables the cache. */
export function newAnswerCache<A extends CacheableAnswer>(clock: Clock, cacheMs: number): AnswerCache<A> {
  const kept = new ByteCache<Produced<A>>(maxKept);
  const lastGood = new ByteCache<A>(maxKept);
  const inFlight = new Map<string, Promise<Produced<A>>>();

  const produce = async (
    key: string,
    make: () => Promise<A>,
    onStale: (error: unknown) => void,
  ): Promise<Produced<A>> => {
    // Start counting before the read. Otherwise, responses could be older than `cacheMs`.
    const now = clock.monotonic();
    const until = now + cacheMs;
    try {
      const answer = await make();
      const produced = { answer, until, isStale: false };
      if (cacheMs > 0) {
        // Compressed copies are kept along with the response, and together they are no larger than it is.
        const bytes = 2 * answer.bytes + key.length;
        kept.set(key, produced, { bytes, until });
        lastGood.set(key, answer, { bytes, until: now + answer.staleIfErrorMs });
      }
      return produced;
    } catch (error) {
      const answer = lastGood.get(key, clock.monotonic());
      if (answer === undefined || !isDatabaseUnavailable(error)) throw error;
      onStale(error);
      return { answer, until: 0, isStale: true };
    }
  };

  return {
    async of(key, make, onStale) {
      const known = kept.get(key, clock.monotonic()) ?? inFlight.get(key);
      if (known !== undefined) return known;
      const started = produce(key, make, onStale).finally(() => inFlight.delete(key));
      inFlight.set(key, started);
      return started;
    },
  };
}

function isDatabaseUnavailable(error: unknown): boolean {
  return error instanceof WaybillError && error.code === 'database_unavailable';
}

/**
 * A cache with a time limit for each entry and a total size. If it is full, the oldest entry is removed.
 * Times are in monotonic milliseconds.
 */
export class ByteCache<T> {
  readonly #entries = new Map<string, { value: T; bytes: number; until: number }>();
  readonly #limits: { entries: number; bytes: number };
  #bytes = 0;

  constructor(limits: { entries: number; bytes: number }) {
    this.#limits = limits;
  }

  get(key: string, now: number): T | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.until > now) return entry.value;
    this.#delete(key);
    return undefined;
  }

  /** Does nothing if the value is larger than the whole cache. */
  set(key: string, value: T, { bytes, until }: { bytes: number; until: number }): void {
    this.#delete(key);
    if (bytes > this.#limits.bytes) return;
    this.#entries.set(key, { value, bytes, until });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#limits.bytes && this.#entries.size <= this.#limits.entries) return;
      this.#delete(oldest);
    }
  }

  #delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }
}
