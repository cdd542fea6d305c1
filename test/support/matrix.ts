import type { Test } from 'tap';
import { keptRows, type MatrixName, type MatrixRow, writeFoundRow } from '../../scripts/matrices/matrices.ts';

/**
 * Records what a test found out about a server or a release that is not ours. `npm test` prints the rows of a
 * run as tables at its end, and `npm run generate` writes the same tables into the page that the matrix names
 * (`scripts/matrices/matrices.ts`, where a new matrix is one line).
 *
 * Call it once for each subject, when all of it was tried, with cells that are short and the same on every
 * machine: `yes`, `no`, `never overwrites`. The version is told and not compared, since a machine may have
 * another. It fails where a cell is not what the page says; then look at why, run `npm run generate` after
 * this test, and commit what it writes. A subject that is tried no more is taken out of
 * `test/matrices/NAME.json`.
 */
export function recordMatrix(t: Pick<Test, 'same'>, name: MatrixName, row: MatrixRow): void {
  writeFoundRow(name, row);
  const kept = keptRows(name).find(({ subject }) => subject === row.subject);
  t.same(row.found, kept?.found, `${row.subject} is as the page says, or else: npm run generate`);
}

/** Records that a subject could not be tried here: `npm test` prints that, and no page keeps it. */
export function recordNotInstalled(name: MatrixName, subject: string): void {
  writeFoundRow(name, { subject, version: 'not installed here', found: {} });
}
