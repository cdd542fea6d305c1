import path from 'node:path';
import type { SourceMutant } from './instrument.ts';
import type { Results } from './results.ts';
import type { Runner } from './runner.ts';
import type { Measured, Unit } from './units.ts';

export type Status = 'killed' | 'timeout' | 'survived' | 'unreached';

export interface Verdict {
  readonly status: Status;
  /** The test that failed, and the file it is in. */
  readonly by?: string;
  readonly test?: string;
}

interface Step {
  readonly test: string;
  readonly bundle: string;
  readonly only?: readonly number[];
  readonly ms: number;
  readonly hits: number;
  readonly reload?: true;
}

/** Estimates how likely a test file is to fail after a change to a source file, based on earlier runs. */
export class Chances {
  readonly #tried = new Map<string, { noticed: number; of: number }>();

  of(file: string, test: string): number {
    const { noticed, of } = this.#tried.get(`${file} ${test}`) ?? { noticed: 0, of: 0 };
    return (noticed + nearness(file, test)) / (of + 1);
  }

  learn(file: string, test: string, hasNoticed: boolean): void {
    const key = `${file} ${test}`;
    const { noticed, of } = this.#tried.get(key) ?? { noticed: 0, of: 0 };
    this.#tried.set(key, { noticed: noticed + (hasNoticed ? 1 : 0), of: of + 1 });
  }
}

/** A test file, with the source files that each of its units reaches. */
export interface Reaching extends Measured {
  readonly reached: readonly ReadonlySet<string>[];
}

export function withReached(measured: readonly Measured[], mutants: readonly SourceMutant[]): Reaching[] {
  const files = new Map(mutants.map(({ id, file }) => [id, file]));
  const filesOf = (hits: Readonly<Record<string, number>>): Set<string> =>
    new Set(Object.keys(hits).flatMap((id) => files.get(id) ?? []));
  return measured.map((one) => ({ ...one, reached: one.units.map(({ hits }) => filesOf(hits)) }));
}

/** The approximate time it takes to start a run, in milliseconds. */
const overheadMs = 30;

/**
 * Returns the runs that could catch a mutant, the most likely ones first. Usually, these are all tests that
 * reach the mutant; quick ones in the same file are combined. If the mutant is in code that runs while
 * modules are loaded, they are the tests that reach its file, or all tests if there are none.
 */
export function stepsFor(
  mutant: SourceMutant,
  measured: readonly Reaching[],
  chances: Pick<Chances, 'of'> = new Chances(),
): Step[] {
  const loading = measured.filter((one) => one.loading.includes(mutant.id));
  const near = measured.flatMap((one): Step[] => {
    const isLoaded = loading.includes(one);
    const reaching = one.units.filter(({ hits }, index) =>
      isLoaded ? one.reached[index]?.has(mutant.file) : mutant.id in hits,
    );
    return inGroups(reaching).map((units) => stepOf(mutant, one, units, isLoaded));
  });
  const steps = near.length > 0 ? near : loading.map((one) => stepOf(mutant, one, one.units, true));
  const cost = ({ test, ms }: Step): number => (ms + overheadMs) / chances.of(mutant.file, test);
  return steps.sort((a, b) => cost(a) - cost(b));
}

/** In milliseconds. Units that take less time are combined. */
const longMs = 100;

/** Combines the quick units in one group. All others get a group of their own. */
function inGroups(units: readonly Unit[]): Unit[][] {
  const isLong = ({ ms }: Unit): boolean => ms >= longMs;
  const quick = units.filter((unit) => !isLong(unit));
  return [...(quick.length > 0 ? [quick] : []), ...units.filter(isLong).map((unit) => [unit])];
}

function stepOf(
  { id }: SourceMutant,
  { test, bundle, units }: Measured,
  reaching: readonly Unit[],
  isLoaded: boolean,
): Step {
  const numbers = reaching.flatMap(({ only }) => only ?? []);
  return {
    test,
    bundle,
    ...(numbers.length > 0 && numbers.length < units.length && { only: numbers }),
    ms: reaching.reduce((sum, unit) => sum + unit.ms, 0),
    hits: isLoaded ? Infinity : reaching.reduce((sum, { hits }) => sum + (hits[id] ?? 0), 0),
    ...(isLoaded && { reload: true }),
  };
}

/**
 * Tests are in the same folder structure as the source, so a test in the same place is probably about this
 * file.
 */
function nearness(file: string, test: string): number {
  const mirror = file.replace(/^src\//, 'test/').replace(/\.ts$/, '.test.ts');
  if (test === mirror) return 1;
  const [folder, ofTest] = [path.posix.dirname(mirror), path.posix.dirname(test)];
  const isAbout = `${folder}/`.startsWith(`${ofTest}/`) && ofTest.split('/').length > 2;
  return isAbout ? 0.6 : 0.2;
}

export interface Trial {
  readonly measured: readonly Reaching[];
  readonly runner: Runner;
  readonly results: Results;
  readonly chances: Chances;
  /**
   * The time limit for the tests of a mutant, based on how long they take without it. The first test always
   * runs.
   */
  readonly budgetMs: number;
}

/**
 * Runs the tests that reach a mutant, until one of them fails. Tests that are known not to fail are skipped.
 * If a test does not end, it is tried again in a new process. If it fails in modules that another mutant was
 * active in before, it is tried again with new ones.
 */
export async function tryOut(mutant: SourceMutant, trial: Trial): Promise<Verdict> {
  const { measured, runner, results, chances, budgetMs } = trial;
  const known = results.noticed(mutant);
  if (known !== undefined) return known;
  const steps = stepsFor(mutant, measured, chances);
  if (steps.length === 0) return { status: 'unreached' };
  let spentMs = 0;
  for (const step of steps) {
    const { test, only, ms } = step;
    spentMs += ms;
    if (results.hasPassed(mutant, test, only)) continue;
    if (spentMs > budgetMs && spentMs > ms) break;
    const verdict = await runStep(mutant, step, runner);
    chances.learn(mutant.file, test, verdict !== null);
    if (verdict === null) results.keepPassed(mutant, test, only);
    else {
      results.keepNoticed(mutant, verdict);
      return verdict;
    }
  }
  return { status: 'survived' };
}

/** Returns null if none of the tests failed. */
async function runStep(
  mutant: SourceMutant,
  { test, bundle, only, ms, hits, reload }: Step,
  runner: Runner,
): Promise<(Verdict & { test: string }) | null> {
  const hitLimit = hits === Infinity ? undefined : 1000 + 100 * hits;
  const run = {
    bundle,
    mutant: mutant.id,
    ...(only && { only }),
    ...(hitLimit && { hitLimit }),
    ...(reload && { reload }),
  };
  const wasNew = runner.isNew;
  const limitMs = 10_000 + 5 * ms;
  const first = await runner.run(run, limitMs);
  const isSure = first === undefined ? wasNew : first.passed || first.isFresh;
  const answer = isSure ? first : await runner.run(run, limitMs);
  if (answer === undefined) return { status: 'timeout', by: 'no end', test };
  return answer.passed ? null : { status: 'killed', by: answer.failure ?? '', test };
}
