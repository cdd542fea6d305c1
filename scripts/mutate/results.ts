import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SourceMutant } from './instrument.ts';
import type { Verdict } from './trial.ts';
import { digestOf } from './units.ts';

interface Kept {
  /** The test that noticed the mutant, with the digest of its file. */
  readonly noticed?: Verdict & { readonly digest: string };
  /**
   * The test files that did not notice it: the digest of each, and its unit numbers unless the whole file
   * ran.
   */
  readonly passed?: Readonly<Record<string, string>>;
}

/**
 * Results of earlier campaigns, by mutant and test file. A result is valid as long as the source file and the
 * test file are unchanged. After a test is added to one file, only that file runs for the survivors it can
 * reach. Imports of tests are not considered: `--fresh` discards all results.
 */
export class Results {
  readonly #file: string;
  readonly #kept: Record<string, Kept>;
  readonly #digests = new Map<string, string>();

  constructor(file: string, isFresh: boolean) {
    this.#file = file;
    this.#kept =
      isFresh || !existsSync(file) ? {} : (JSON.parse(readFileSync(file, 'utf8')) as Record<string, Kept>);
  }

  /** The test that noticed the mutant, if known. */
  noticed(mutant: SourceMutant): Verdict | undefined {
    const { noticed } = this.#kept[this.#key(mutant)] ?? {};
    return noticed !== undefined && this.#holds(noticed.test, noticed.digest) ? noticed : undefined;
  }

  /** Whether these units of the test file, or the whole file, are known not to notice the mutant. */
  hasPassed(mutant: SourceMutant, test: string, only?: readonly number[]): boolean {
    const passed = this.#passed(mutant, test);
    return passed !== undefined && (passed === 'all' || only?.every((unit) => passed.has(unit)) === true);
  }

  keepNoticed(mutant: SourceMutant, verdict: Verdict & { test: string }): void {
    this.#kept[this.#key(mutant)] = { noticed: { ...verdict, digest: this.#digest(verdict.test) } };
  }

  keepPassed(mutant: SourceMutant, test: string, only?: readonly number[]): void {
    const key = this.#key(mutant);
    const before = this.#passed(mutant, test);
    const units = only === undefined || before === 'all' ? [] : [...new Set([...(before ?? []), ...only])];
    const passed = [this.#digest(test), ...units].join(' ');
    this.#kept[key] = { passed: { ...this.#kept[key]?.passed, [test]: passed } };
  }

  #passed(mutant: SourceMutant, test: string): Set<number> | 'all' | undefined {
    const [digest, ...units] = this.#kept[this.#key(mutant)]?.passed?.[test]?.split(' ') ?? [];
    if (!this.#holds(test, digest)) return undefined;
    return units.length === 0 ? 'all' : new Set(units.map(Number));
  }

  save(): void {
    mkdirSync(path.dirname(this.#file), { recursive: true });
    // Written to a temporary file and renamed, so that a kill keeps the earlier results.
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#kept));
    renameSync(`${this.#file}.new`, this.#file);
  }

  #holds(test: string | undefined, digest: string | undefined): boolean {
    return test !== undefined && digest !== undefined && existsSync(test) && digest === this.#digest(test);
  }

  #key({ file, place, mutator, replacement }: SourceMutant): string {
    const parts = [this.#digest(file), place, mutator, replacement];
    return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);
  }

  #digest(file: string): string {
    const known = this.#digests.get(file) ?? digestOf(file).slice(0, 12);
    this.#digests.set(file, known);
    return known;
  }
}
