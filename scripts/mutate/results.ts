import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SourceMutant } from './instrument.ts';
import type { Verdict } from './trial.ts';
import { digestOf } from './units.ts';

interface Kept extends Verdict {
  /** What it depends on: if that is still so, the verdict is. */
  readonly of: string;
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
    if (kept === undefined) return undefined;
    if (kept.test !== undefined && !existsSync(kept.test)) return undefined;
    return kept.of === this.#basis(kept, tests) ? kept : undefined;
  }

  keep(mutant: SourceMutant, tests: readonly string[], verdict: Verdict): void {
    this.#kept[this.#key(mutant)] = { ...verdict, of: this.#basis(verdict, tests) };
  }

  save(): void {
    mkdirSync(path.dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, JSON.stringify(this.#kept));
  }

  #key(mutant: SourceMutant): string {
    return hash([this.#digest(mutant.file), mutant.place, mutant.mutator, mutant.replacement]);
  }

  #basis({ test }: Verdict, tests: readonly string[]): string {
    const names = test === undefined ? tests : [test];
    return hash(names.flatMap((name) => [name, this.#digest(name)]));
  }

  #digest(file: string): string {
    const known = this.#digests.get(file) ?? digestOf(file);
    this.#digests.set(file, known);
    return known;
  }
}

function hash(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 22);
}
