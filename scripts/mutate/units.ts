import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { TestBundle } from './bundle.ts';
import type { Runner } from './runner.ts';
import type { Answer } from './worker.ts';

/** One or more tests in a file that run together, and what they reach. */
export interface Unit {
  /** The number of the unit in its file. Absent if this is the whole file. */
  readonly only?: number;
  readonly ms: number;
  /** How often each mutant was reached. */
  readonly hits: Readonly<Record<string, number>>;
}

/** A test file, and how it behaves without mutants. */
export interface Measured extends TestBundle {
  readonly digest: string;
  readonly ms: number;
  /** The mutants that were reached while modules were loaded. Any test in the file can depend on them. */
  readonly loading: readonly string[];
  readonly units: readonly Unit[];
}

/** In milliseconds. If the whole file takes less than this, it is not worth running its tests separately. */
const worthDividing = 150;
const timeoutMs = 180_000;
const saveEveryMs = 30_000;

/**
 * Runs a test file once, and then each of its tests separately. If it fails without a mutant, it cannot be
 * used, and this returns the reason.
 */
export async function measure(bundle: TestBundle, runner: Runner): Promise<Measured | string> {
  const whole = await runner.run({ bundle: bundle.bundle }, timeoutMs);
  if (whole?.passed !== true) return whole?.failure ?? 'takes too long';
  const all = { ...bundle, digest: digestOf(bundle.bundle), ms: whole.ms, loading: whole.loading };
  const undivided = { ...all, units: [unitOf(whole)] };
  if (whole.ms < worthDividing || whole.tests < 2) return undivided;
  const units: Unit[] = [];
  for (let only = 0; only < whole.tests; only += 1) {
    const answer = await runner.run({ bundle: bundle.bundle, only: [only] }, timeoutMs);
    if (answer?.passed !== true) return undivided;
    units.push({ only, ...unitOf(answer) });
  }
  return { ...all, units };
}

export function digestOf(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('base64url');
}

function unitOf({ ms, hits }: Answer): Unit {
  return { ms, hits };
}

/**
 * Measures test files. Measurements are stored in `file`, and only files that have changed are measured
 * again.
 */
export async function measureAll(
  bundles: readonly TestBundle[],
  runners: readonly Runner[],
  file: string,
  print: (line: string) => void,
): Promise<Measured[]> {
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Measured[]) : [];
  const measured: Measured[] = [];
  let savedAt = Date.now();
  const save = (): void => {
    const others = known.filter(({ test }) => !measured.some((each) => each.test === test));
    writeFileSync(file, JSON.stringify([...others, ...measured]));
    savedAt = Date.now();
  };
  const next = bundles.values();
  await Promise.all(
    runners.map(async (runner) => {
      for (const bundle of next) {
        const digest = digestOf(bundle.bundle);
        const one =
          known.find((each) => each.test === bundle.test && each.digest === digest) ??
          (await measure(bundle, runner));
        if (typeof one === 'string') {
          print(`left out, because it fails unchanged: ${bundle.test}: ${one}`);
          continue;
        }
        print(`${bundle.test}: ${Math.round(one.ms)} ms, ${one.units.length} parts`);
        measured.push(one);
        if (Date.now() - savedAt > saveEveryMs) save();
      }
    }),
  );
  save();
  return measured;
}
