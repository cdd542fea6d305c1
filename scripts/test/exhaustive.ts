import { readFileSync, writeFileSync } from 'node:fs';
import type { FileResult } from './run-file.ts';
import type { SourceVersion } from './source-version.ts';

/** The latest result of a test suite in exhaustive mode. */
interface SuiteResult {
  sources: string;
  /** In RFC 3339 (UTC). */
  at: string;
  seconds: number;
  passed: number;
  failed: number;
  /** The coverage that the suite has reported, such as `1330 fault points walked (S3)`. */
  coverage: string[];
}

export interface ExhaustiveResults {
  record(result: FileResult): void;
  /** Reports whether the suite has passed with the current sources. */
  hasPassed(file: string): boolean;
  /** Returns a table with the latest result of each suite that has run on this machine. */
  table(): string;
}

/**
 * Stores the latest result of each suite in a file, so that an interrupted run can be continued. If the file
 * cannot be read, there are no results.
 */
export function exhaustiveResults(file: string, { label }: SourceVersion): ExhaustiveResults {
  const read = (): Record<string, SuiteResult> => {
    try {
      return JSON.parse(readFileSync(file, 'utf8')) as Record<string, SuiteResult>;
    } catch {
      return {};
    }
  };
  return {
    record(result) {
      const entry: SuiteResult = {
        sources: label,
        at: new Date().toISOString().replace(/\.\d+/, ''),
        seconds: Math.round(result.ms / 1000),
        passed: result.passed,
        failed: result.failures.length,
        coverage: result.reports,
      };
      writeFileSync(file, JSON.stringify({ ...read(), [result.file]: entry }, null, 1));
    },
    hasPassed(name) {
      const last = read()[name];
      return last?.sources === label && last.failed === 0 && last.passed > 0;
    },
    table: () => tableOf(read()),
  };
}

function tableOf(results: Readonly<Record<string, SuiteResult>>): string {
  const suites = Object.entries(results).sort(([a], [b]) => (a < b ? -1 : 1));
  if (suites.length === 0) return 'no suite has run in exhaustive mode here';
  const rows = suites.flatMap(([file, { sources, at, seconds, passed, failed, coverage }]) => {
    const suite = file.replace(/^test\//, '').replace(/\.test\.ts$/, '');
    const result = failed > 0 ? `${failed} FAILED` : `${passed} passed`;
    const [first = '', ...more] = coverage;
    return [
      [suite, sources, at, `${seconds} s`, result, first],
      ...more.map((line) => ['', '', '', '', '', line]),
    ];
  });
  const table = [['suite', 'sources', 'when', 'time', 'result', 'coverage'], ...rows];
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((row) => (row[column] ?? '').length)),
  );
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
