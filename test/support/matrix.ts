import type { Test } from 'tap';
import { keptRows, type MatrixName, type MatrixRow, writeFoundRow } from '../../scripts/matrices/matrices.ts';

/**
 * Records a test result for an external server or release. `npm test` prints the rows of a run as tables at
 * its end, and `npm run generate` writes the same tables into the page that the matrix names
 * (`scripts/matrices/matrices.ts`, where a new matrix is one line).
 *
 * Call it once for each subject after all checks, with cells that are short and equal on every machine:
 * `yes`, `no`, `never overwrites`. The version is printed and not compared, since machines differ. The call
 * fails if a cell differs from the page. Then find the reason, run `npm run generate` after this test, and
 * commit the result. Remove a subject that is no longer tested from `test/matrices/NAME.json`.
 */
export function recordMatrix(t: Pick<Test, 'same'>, name: MatrixName, row: MatrixRow): void {
  writeFoundRow(name, row);
  const kept = keptRows(name).find(({ subject }) => subject === row.subject);
  t.same(row.found, kept?.found, `${row.subject} matches the page, or else: npm run generate`);
}

/** Records that a subject could not be tested here. `npm test` prints that, and no page stores it. */
export function recordNotInstalled(name: MatrixName, subject: string): void {
  writeFoundRow(name, { subject, version: 'not installed here', found: {} });
}
