import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SourceMutant } from './instrument.ts';
import type { Verdict } from './trial.ts';
import { digestOf } from './units.ts';

interface Kept {
  /** The test that failed because of this mutant, and the digest of its file. */
  readonly noticed?: Verdict & { readonly digest: string };
  /**
   * The test files that did not fail. The value is the digest of the file and, if only some of its units ran,
   * their numbers.
   */
  readonly passed?: Readonly<Record<string, string>>;
}

/**
 * Remembers results from earlier runs, by mutant and test file. They are used for as long as the source file
 * and the test file have not changed. For example, after adding a test to a file, only this file is run, for
 * the survivors that it can reach. Changes to modules that a test imports are not detected; use `--fresh` to
 * start over.
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

  /** Returns the test that failed because of this mutant, if there was one. */
  noticed(mutant: SourceMutant): Verdict | undefined {
    const { noticed } = this.#kept[this.#key(mutant)] ?? {};
    return noticed !== undefined && this.#holds(noticed.test, noticed.digest) ? noticed : undefined;
  }

  /** Reports whether the test file, or these units of it, did not fail because of this mutant. */
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
    // Write to a temporary file and rename it, so that the earlier results are not lost if the process is
    // killed.
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
