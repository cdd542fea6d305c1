import fc from 'fast-check';

/**
 * Walks, storms and kills have thousands of cases. With `CI` set all of them run; otherwise a sample, which
 * the seed chooses: `npm test` draws one and prints it, and `WAYBILL_TEST_SEED=… npm test` repeats it.
 */
export const isExhaustive = process.env['CI'] !== undefined && process.env['CI'] !== 'false';

/** A file that runs by itself always draws the same sample. */
export const seed = Number(process.env['WAYBILL_TEST_SEED'] ?? 20_261_120);

// Properties draw from the same seed, and name it when they fail.
fc.configureGlobal({ seed });

/** How many of so many cases to run; never none. */
export function howMany(all: number, sampled: number): number {
  return isExhaustive ? all : Math.max(1, Math.min(all, sampled));
}

/**
 * All cases, or a sample of so many of them in their order. `what` makes samples of one seed independent of
 * each other.
 */
export function sampleOf<T>(all: readonly T[], sampled: number, what: string): readonly T[] {
  const wanted = howMany(all.length, sampled);
  if (wanted >= all.length) return all;
  const random = generator(what);
  const chosen = new Set<number>();
  while (chosen.size < wanted) chosen.add(Math.floor(random() * all.length));
  return all.filter((_, index) => chosen.has(index));
}

/**
 * Numbers from 0 to below 1, which the seed and `what` determine. Mulberry32: small, and the same everywhere.
 */
export function generator(what: string): () => number {
  let state = Array.from(what).reduce((sum, letter) => Math.imul(sum, 31) + letter.charCodeAt(0), seed) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `12 of 340`, or only the number if those were all. */
export function share(ran: number, all: number): string {
  return ran === all ? `${ran}` : `${ran} of ${all}`;
}
