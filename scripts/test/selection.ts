import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { closureOf } from './closure.ts';

export type Mode = 'tests' | 'matrix' | 'exhaustive';

/** A name that selects nothing. The message names it. */
export class SelectionError extends Error {}

const matrix = 'test/matrix/';
const sampling = 'test/support/sampling.ts';
/** Prefixes of the files that only CI and `npm test -- --all` run: half of the time of a whole run. */
export const slow = [
  'test/canary',
  'test/cli/ci-examples',
  'test/cli/pairs',
  'test/cli/producer',
  'test/cli/terminal',
  'test/cli/weather-feed',
  'test/core/signing/usual-limits',
  'test/core/storage/added-backend',
  'test/core/storage/sftp-adversity',
  'test/core/storage/sftp/further-sessions',
  'test/demo',
  'test/docs/',
  'test/faults/exchanged-directories',
  'test/faults/frozen-publisher',
  'test/faults/killed-at-each-change',
  'test/faults/killed-on-storages',
  'test/faults/obstacles',
  'test/harness',
  'test/hosts/',
  'test/install',
  'test/pages/every-',
  'test/release',
  'test/stopwatch',
  'test/systemd',
  'test/weather/api/weather-corpus-',
  'test/weather/api/weather-oracle/',
  'test/weather/reader-',
  'test/workers/bullmq/event-outbox',
  'test/workers/bullmq/redis-away',
  'test/workers/bullmq/redis-cluster',
] as const;

/**
 * Returns the test files of a run, sorted.
 *
 * @param names files and directories; `test/` and `.test.ts` may be omitted. Empty: all files of the mode.
 * @param isWhole with `tests` and no names: includes the slow files
 * @param matrixTurn with `tests` and no names: adds the matrix suite that this number chooses
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
  const tests = isWhole ? others : others.filter((file) => !slow.some((start) => file.startsWith(start)));
  const turn = matrixTurn === undefined ? undefined : suites[matrixTurn % suites.length];
  return turn === undefined ? tests : [...tests, turn].sort();
}

function filesNamed(name: string): string[] {
  // A file takes precedence over a directory of the same name.
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
