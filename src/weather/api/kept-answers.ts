import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { ByteCache } from './byte-cache.ts';

/** An answer to a question, before it is encoded. */
export interface Produced<A> {
  answer: A;
  /** Milliseconds of the monotonic clock up to which it may be kept. */
  until: number;
  /** Whether it is the last good answer, while the database is away. */
  isStandIn: boolean;
}

export interface KeptAnswers<A> {
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

export const mostKept = { entries: 1000, bytes: 32 * 1024 * 1024 };

/** @param cacheMs How long an answer is kept; 0: not at all. */
export function newKeptAnswers<A extends Keepable>(clock: Clock, cacheMs: number): KeptAnswers<A> {
  const kept = new ByteCache<Produced<A>>(mostKept);
  const lastGood = new ByteCache<A>(mostKept);
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
