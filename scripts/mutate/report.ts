import path from 'node:path';
import { oneLine, type SourceMutant } from './instrument.ts';
import type { Status, Verdict } from './trial.ts';

/** A mutant that may survive. It is identified by its content, because line numbers change. */
export interface Accepted {
  readonly file: string;
  readonly context: string;
  readonly original: string;
  readonly replacement: string;
}
export interface Acceptance {
  readonly reason: string;
  readonly mutants: readonly Accepted[];
}

export type Judged = readonly [SourceMutant, Verdict];

export interface Summary {
  readonly table: readonly string[];
  /** Mutants that have survived but are not in the list. */
  readonly unexplained: readonly Judged[];
  readonly explained: readonly Judged[];
  /** Mutants in the list that no longer survive or no longer exist. */
  readonly outdated: readonly Accepted[];
  /** The percentage of mutants that made a test fail, not counting the skipped ones. */
  readonly score: number;
}

const columns = ['folder', 'mutants', 'killed', 'timeouts', 'survivors', 'listed', 'killed %'];

/** Counts mutants by folder, and compares the survivors with the list of accepted ones. */
export function summarise(judged: readonly Judged[], accepted: readonly Acceptance[]): Summary {
  const listed = accepted.flatMap(({ mutants }) => mutants);
  const survivors = judged.filter(([, verdict]) => !isNoticed(verdict));
  const folderOf = ([{ file }]: Judged): string => path.posix.dirname(file);
  const folders = [...new Set(judged.map(folderOf))].sort();
  const row = (name: string, of: readonly Judged[]): string[] => {
    const count = (...wanted: Status[]): number =>
      of.filter(([, { status }]) => wanted.includes(status)).length;
    const left = of.filter(([, verdict]) => !isNoticed(verdict));
    const counts = [of.length, count('killed'), count('timeout'), left.length];
    const explained = left.filter(([mutant]) => isListed(mutant, accepted)).length;
    return [name, ...[...counts, explained].map(String), share(of).toFixed(1)];
  };
  const rows = folders.map((folder) =>
    row(
      folder,
      judged.filter((one) => folderOf(one) === folder),
    ),
  );
  const files = new Set(judged.map(([{ file }]) => file));
  return {
    table: aligned([columns, ...rows, row('all', judged)]),
    unexplained: survivors.filter(([mutant]) => !isListed(mutant, accepted)),
    explained: survivors.filter(([mutant]) => isListed(mutant, accepted)),
    outdated: listed.filter(
      (one) => files.has(one.file) && !survivors.some(([mutant]) => isSame(one, mutant)),
    ),
    score: share(judged),
  };
}

export function describeMutant(
  { file, line, mutator, original, replacement }: SourceMutant,
  verdict: Verdict,
): string {
  const how = verdict.status === 'unreached' ? ' (no test reaches it)' : '';
  return `${file}:${line} ${mutator}${how}\n    ${original}\n  → ${replacement || '(nothing)'}`;
}

/** The list may contain a mutant in full, or shortened as it was printed. */
function isSame(one: Accepted, { file, context, original, replacement }: SourceMutant): boolean {
  return (
    one.file === file &&
    oneLine(one.context) === context &&
    oneLine(one.original) === original &&
    oneLine(one.replacement) === replacement
  );
}

export function isListed(mutant: SourceMutant, accepted: readonly Acceptance[]): boolean {
  return accepted.some(({ mutants }) => mutants.some((one) => isSame(one, mutant)));
}

export function isNoticed(verdict: Verdict | undefined): boolean {
  return verdict?.status === 'killed' || verdict?.status === 'timeout';
}

function share(judged: readonly Judged[]): number {
  const noticed = judged.filter(([, verdict]) => isNoticed(verdict)).length;
  return judged.length === 0 ? 100 : (100 * noticed) / judged.length;
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  '),
  );
}
