import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SourceMutant } from './instrument.ts';
import type { Verdict } from './trial.ts';
import { digestOf } from './units.ts';

interface Kept extends Verdict {
  /** The text of the test that killed it. */
  readonly digest?: string;
}

/**
 * Verdicts of earlier campaigns. One holds as long as the source file is the same and so is the text of the
 * test that killed the mutant, or of all the tests that did not. What those import is not looked at:
 * `--fresh` forgets everything.
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

  find(mutant: SourceMutant, tests: readonly string[]): Verdict | undefined {
    const kept = this.#kept[this.#key(mutant)];
    const holds =
      kept?.test !== undefined && existsSync(kept.test) && kept.digest === this.#digest(kept.test);
    return holds ? kept : this.#kept[this.#key(mutant, tests)];
  }

  keep(mutant: SourceMutant, tests: readonly string[], verdict: Verdict): void {
    const { test } = verdict;
    if (test === undefined) this.#kept[this.#key(mutant, tests)] = verdict;
    else this.#kept[this.#key(mutant)] = { ...verdict, digest: this.#digest(test) };
  }

  save(): void {
    mkdirSync(path.dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, JSON.stringify(this.#kept));
  }

  #key(mutant: SourceMutant, tests: readonly string[] = []): string {
    const { file, place, mutator, replacement } = mutant;
    const read = tests.flatMap((name) => [name, this.#digest(name)]);
    const parts = [this.#digest(file), place, mutator, replacement, ...read];
    return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);
  }

  #digest(file: string): string {
    const known = this.#digests.get(file) ?? digestOf(file);
    this.#digests.set(file, known);
    return known;
  }
}
