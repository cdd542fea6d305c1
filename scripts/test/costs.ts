import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import type { FileResult } from './run-file.ts';

/*
 * What the slow test files cost. A cost is the share of the processor time of a whole run, in thousandths, so
 * it is about the same on every machine. `npm test -- --all --record` measures it.
 */

const costsFile = new URL('costs.json', import.meta.url);
const costs = JSON.parse(readFileSync(costsFile, 'utf8')) as Record<string, number>;
/** A file is slow if it takes more than two thousandths of the processor time of all files. */
const maxQuick = 2;
/** Slow files that run every time: the specification, the walks of the protocol, and the main commands. */
const always = [
  'test/spec/',
  'test/cli/commands.',
  'test/cli/mistakes.',
  'test/cli/commands/publish/publish.',
  'test/cli/commands/publish/run.',
  'test/faults/every-fault.',
  'test/faults/frozen-publisher.',
  'test/faults/releases.',
  'test/faults/s3-walk.',
  'test/faults/sftp-walk.',
  'test/pages/console.',
] as const;

/** Returns the cost of a file in thousandths of a whole run; 0 for a quick file. */
export function costOf(file: string): number {
  return costs[file] ?? 0;
}

export function isSlow(file: string): boolean {
  return costOf(file) > maxQuick && !always.some((start) => file.startsWith(start));
}

/** Sorts files in an order that the seed determines. */
export function shuffled(files: readonly string[], seed: number): string[] {
  const rank = (file: string): string => createHash('sha256').update(`${seed} ${file}`).digest('hex');
  return files.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1));
}

/** Writes the costs of the slow files of a whole run. */
export function recordCosts(results: readonly FileResult[]): void {
  const total = results.reduce((sum, { processorMs }) => sum + (processorMs ?? 0), 0);
  const measured = results
    .map(({ file, processorMs }) => [file, Math.round(((processorMs ?? 0) / total) * 10_000) / 10] as const)
    .filter(([, cost]) => cost > maxQuick);
  writeFileSync(costsFile, `${JSON.stringify(Object.fromEntries(measured), null, 2)}\n`);
}
