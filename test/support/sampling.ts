import fc from 'fast-check';
import type { Test } from 'tap';
import { inParallel } from '../../src/core/lib/parallel.ts';

/**
 * Samples of walks, kills and interleavings, which have thousands of cases. The seed chooses a sample:
 * `npm test` prints it, and `WAYBILL_TEST_SEED=… npm test` repeats it. `WAYBILL_TEST_EXHAUSTIVE=1` runs
 * every case.
 */
export const isExhaustive = process.env['WAYBILL_TEST_EXHAUSTIVE'] === '1';

/** A file that runs alone always uses the same sample. */
export const seed = numberFrom('WAYBILL_TEST_SEED', 20_261_120);

// Properties use the same seed, and print it when they fail.
fc.configureGlobal({ seed });

/** One case of a walk. */
export interface Case {
  /** The name of the case in a failure, which is the same in every run. */
  name: string;
  /** The kind of case, e.g. the step of the protocol and the fault. Every sample has a case of each. */
  stratum: string;
  /** Returns the errors. Throws if the case itself cannot run. */
  run: () => Promise<readonly string[]>;
}

export interface WalkOptions {
  /** The name of the cases in the report, e.g. `fault points (SFTP)`. */
  what: string;
  /** The number of concurrent cases. Default: one. */
  concurrency?: number;
}

/** A walk ends early after this many failures. `TAP_BAIL` is tap's own setting. */
const maxFailures = process.env['TAP_BAIL'] === '1' ? 1 : 10;
const reportEveryMs = 10_000;

/**
 * Runs one case of each stratum, and then further cases of all strata in turn until the budget is used. A
 * file has one walk, so that the budget applies to the file. The number of cases depends on the machine:
 * nothing may depend on it. Returns the strata.
 */
export async function walkCases(
  t: Test,
  cases: readonly Case[],
  { what, concurrency = 1 }: WalkOptions,
): Promise<ReadonlySet<string>> {
  const strata = new Set(cases.map(({ stratum }) => stratum));
  const end = performance.now() + numberFrom('WAYBILL_TEST_BUDGET', 20) * 1000;
  const failures: string[] = [];
  let [started, ran, reported] = [0, 0, performance.now()];
  await inParallel(drawn(cases, what), concurrency, async ({ name, run }) => {
    const isOver = !isExhaustive && started >= strata.size && performance.now() > end;
    if (isOver || failures.length >= maxFailures) return;
    started += 1;
    const wrong = await run().catch((error: unknown) => [errorText(error)]);
    if (wrong.length > 0) failures.push(`seed ${seed}: ${name}: ${wrong.join('; ')}`);
    ran += 1;
    // A file without output for minutes counts as hanging.
    if (performance.now() - reported < reportEveryMs) return;
    reported = performance.now();
    t.comment(`${ran} of ${cases.length} ${what}`);
  });
  t.same(failures, [], what);
  t.comment(`report: ${share(ran, cases.length)} ${what}, ${strata.size} strata`);
  return strata;
}

/**
 * The cases in the order of a walk: first one of each stratum, then a second one, and so on. A larger budget
 * runs the same cases and more.
 */
export function drawn(cases: readonly Case[], what: string): readonly Case[] {
  const random = generator(what);
  const strata = new Map<string, Case[]>();
  for (const one of cases) strata.set(one.stratum, [...(strata.get(one.stratum) ?? []), one]);
  const orders = shuffled([...strata.values()], random).map((stratum) => shuffled(stratum, random));
  const longest = Math.max(0, ...orders.map(({ length }) => length));
  return Array.from({ length: longest }, (_, round) => orders.flatMap((order) => order[round] ?? [])).flat();
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  return all
    .map((one) => ({ one, rank: random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ one }) => one);
}

/** The number of cases to run, at least one. */
export function howMany(all: number, sampled: number): number {
  return isExhaustive ? all : Math.max(1, Math.min(all, sampled));
}

/**
 * All cases, or a sample of this many in their order. `what` makes samples of one seed independent of each
 * other.
 */
export function sampleOf<T>(all: readonly T[], sampled: number, what: string): readonly T[] {
  const wanted = new Set(shuffled(all, generator(what)).slice(0, howMany(all.length, sampled)));
  return all.filter((one) => wanted.has(one));
}

/**
 * Numbers from 0 to below 1, determined by the seed and `what`. Mulberry32 is small, and the same
 * everywhere.
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

/** `12 of 340`, or only the number if all were run. */
export function share(ran: number, all: number): string {
  return ran === all ? `${ran}` : `${ran} of ${all}`;
}

function numberFrom(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!(value >= 0)) throw new Error(`${name} is not a number: ${process.env[name] ?? ''}`);
  return value;
}
