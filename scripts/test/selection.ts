import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { closureOf } from './closure.ts';
import { isSlow } from './costs.ts';

export type Mode = 'tests' | 'matrix' | 'exhaustive';

/** Thrown if a name does not match any files. The message contains the name. */
export class SelectionError extends Error {}

const matrix = 'test/matrix/';
const sampling = 'test/support/sampling.ts';
/**
 * Returns the test files to run, sorted.
 *
 * @param names Files and directories. `test/` and `.test.ts` can be left out. If empty, all files for this
 *   mode are returned.
 * @param isWhole Include slow tests if the mode is `tests` and there are no names.
 * @param matrixTurn Include the matrix suite with this number if the mode is `tests` and there are no names.
 */
export function selectFiles({
  mode,
  names,
  isWhole,
  matrixTurn,
}: {
  mode: Mode;
  names: readonly string[];
  isWhole: boolean;
  matrixTurn?: number | undefined;
}): string[] {
  if (names.length > 0) return [...new Set(names.flatMap(filesNamed))].sort();
  const all = filesBelow('test');
  const suites = all.filter((file) => file.startsWith(matrix));
  const others = all.filter((file) => !file.startsWith(matrix));
  if (mode === 'matrix') return suites;
  if (mode === 'exhaustive') return others.filter((file) => closureOf(file).includes(sampling));
  const tests = isWhole ? others : others.filter((file) => !isSlow(file));
  const turn = matrixTurn === undefined ? undefined : suites[matrixTurn % suites.length];
  return turn === undefined ? tests : [...tests, turn].sort();
}

function filesNamed(name: string): string[] {
  // If there is a file and a directory with this name, use the file.
  const candidates = [path.join('test', `${name}.test.ts`), name, path.join('test', name)];
  const found = candidates.map((file) => path.relative('.', path.resolve(file))).find(existsSync);
  if (found === undefined) throw new SelectionError(`no test file or directory is called ${name}`);
  const files = statSync(found).isDirectory() ? filesBelow(found) : [found];
  if (files.length === 0) throw new SelectionError(`no test file is below ${name}`);
  return files;
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => path.join(directory, file))
    .sort();
}
