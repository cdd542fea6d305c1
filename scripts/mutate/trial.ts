import type { SourceMutant } from './instrument.ts';
import type { Runner } from './runner.ts';
import type { Measured } from './units.ts';

export type Status = 'killed' | 'timeout' | 'survived' | 'unreached';

export interface Verdict {
  readonly status: Status;
  /** The test that failed, and its file. */
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

/**
 * The runs that may notice a mutant: of each file the tests that reach it, or all if it is reached when
 * modules are loaded. The file that mirrors the source comes first, then the quickest.
 */
export function stepsFor(mutant: SourceMutant, measured: readonly Measured[]): Step[] {
  const steps = measured.flatMap(({ test, bundle, ms, loading, units }): Step[] => {
    if (loading.includes(mutant.id)) return [{ test, bundle, ms, hits: Infinity, reload: true }];
    const reaching = units.filter(({ hits }) => mutant.id in hits);
    if (reaching.length === 0) return [];
    const numbers = reaching.flatMap(({ only }) => only ?? []);
    return [
      {
        test,
        bundle,
        ...(numbers.length > 0 && numbers.length < units.length && { only: numbers }),
        ms: reaching.reduce((sum, unit) => sum + unit.ms, 0),
        hits: reaching.reduce((sum, { hits }) => sum + (hits[mutant.id] ?? 0), 0),
      },
    ];
  });
  const mirror = mutant.file.replace(/^src\//, 'test/').replace(/\.ts$/, '.test.ts');
  const rank = ({ test, ms }: Step): number => (test === mirror ? 0 : ms);
  return steps.sort((a, b) => rank(a) - rank(b));
}

/** Runs the tests that reach the mutant until one fails. */
export async function tryOut(
  mutant: SourceMutant,
  measured: readonly Measured[],
  runner: Runner,
): Promise<Verdict> {
  const steps = stepsFor(mutant, measured);
  if (steps.length === 0) return { status: 'unreached' };
  for (const { test, bundle, only, ms, hits, reload } of steps) {
    const hitLimit = hits === Infinity ? undefined : 1000 + 100 * hits;
    const run = {
      bundle,
      mutant: mutant.id,
      ...(only && { only }),
      ...(hitLimit && { hitLimit }),
      ...(reload && { reload }),
    };
    const answer = await runner.run(run, 15_000 + 5 * ms);
    if (answer === undefined) return { status: 'timeout', by: 'no end', test };
    if (!answer.passed) return { status: 'killed', by: answer.failure ?? '', test };
  }
  return { status: 'survived' };
}
