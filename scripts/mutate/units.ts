import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { TestBundle } from './bundle.ts';
import type { Runner } from './runner.ts';
import type { Answer } from './worker.ts';

/** The tests of a file that are run together, and what they reach. */
export interface Unit {
  /** Its number in the file. Absent: the whole file. */
  readonly only?: number;
  readonly ms: number;
  /** How often each mutant was reached while the unit ran. */
  readonly hits: Readonly<Record<string, number>>;
}

/** The behavior of a test file without a mutant. */
export interface Measured extends TestBundle {
  readonly digest: string;
  readonly ms: number;
  /** Reached during module loading: any of its tests may depend on it. */
  readonly loading: readonly string[];
  readonly units: readonly Unit[];
}

/** Below this duration, running a whole file is cheaper than selecting its tests. */
const worthDividing = 150;
const timeoutMs = 180_000;
const saveEveryMs = 30_000;

/**
 * Runs a file once, then each of its tests alone. Returns the reason if the unchanged file fails and cannot
 * be used.
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

/** Measures changed test files. `file` caches earlier measurements. */
export async function measureAll(
  bundles: readonly TestBundle[],
  runners: readonly Runner[],
  file: string,
  tell: (line: string) => void,
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
          tell(`left out, because it fails unchanged: ${bundle.test}: ${one}`);
          continue;
        }
        tell(`${bundle.test}: ${Math.round(one.ms)} ms, ${one.units.length} parts`);
        measured.push(one);
        if (Date.now() - savedAt > saveEveryMs) save();
      }
    }),
  );
  save();
  return measured;
}
