/**
 * Runs the tests; see `npm test -- --help`. The last line of the output is `N passed, N failed[, N flaky][, N
 * skipped]`, which a CI system can parse.
 *
 * If a file fails while others are running, it runs again on its own. If it passes then, its failures are
 * reported as flaky, and do not make the whole run fail. docs/decisions/001-flaky-tests.md explains why.
 *
 * If `CI` is set, skipped tests count as failures, the output is verbose, and `npm test` also runs one of the
 * matrix suites and, in the time that is left, slow tests. The commit determines which come first.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { installMissing, missingPackages, MissingService } from '../test/services/debian.ts';
import { nameLocalhost } from '../test/services/localhost.ts';
import { type NeedName, needsOf } from '../test/services/needs.ts';
import { forgetFoundRows, foundTables } from './matrices/matrices.ts';
import { bundle } from './test/bundle.ts';
import { closureOf } from './test/closure.ts';
import { costOf, isSlow, recordCosts, shuffled } from './test/costs.ts';
import { exhaustiveResults } from './test/exhaustive.ts';
import { endRun, markRun } from './test/leftovers.ts';
import { maxExpensive, report } from './test/report.ts';
import { type FileResult, runFile } from './test/run-file.ts';
import { type Mode, selectFiles, SelectionError } from './test/selection.ts';
import { shareRadosgw } from './test/shared-radosgw.ts';
import { seedOf, sourceVersion } from './test/source-version.ts';

const usage = `npm test [-- NAME…]                    all tests but the slow ones and the matrix, or these
npm run test:matrix [-- NAME…]         a Debian root, other releases of Node.js, foreign servers
npm run test:exhaustive [-- NAME…]     every case of every walk, one suite at a time

NAME is a file, a directory, or either without test/ and .test.ts, e.g. faults/s3-walk.

  --all        with npm test: the slow tests and longer samples, too
  --record     with --all: note how long the slow files took, in scripts/test/costs.json
  --resume     with test:exhaustive: skip suites that passed on these sources
  --strict     do not run a failed file again
  --verbose    one line for each file, and the coverage that tests report
  --help       this text

Environment:
  WAYBILL_TEST_JOBS      files at a time (default: two more than the processors)
  WAYBILL_TEST_SEED      seed of the samples (default: derived from the commit)
  WAYBILL_TEST_BUDGET    seconds of samples per file (default: 2, with --all 5)
  WAYBILL_TEST_MINUTES   in CI, minutes in which slow tests may start (default: 10)`;
const timesFile = '.tap/times.json';
const isCi = process.env['CI'] !== undefined && process.env['CI'] !== 'false';
/** If more files than this fail, the cause is probably a change, so do not run them again. */
const maxRetriedFiles = 3;
const { mode, names, isVerbose, isResumed, isStrict, isWhole, isRecorded } = readArguments();
/** Whether slow files start only while there is time. */
const isTimed = isCi && mode === 'tests' && names.length === 0 && !isWhole;
const version = sourceVersion();
const seed = environmentNumber('WAYBILL_TEST_SEED', 0) ?? seedOf(version.commit);
const chosenJobs = environmentNumber('WAYBILL_TEST_JOBS', 1) ?? availableParallelism() + 2;
const jobs = mode === 'exhaustive' ? 1 : chosenJobs;
const slowMinutes = environmentNumber('WAYBILL_TEST_MINUTES', 0) ?? 10;
const results = exhaustiveResults('.tap/exhaustive.json', version);

const files = select();
const needsOfFile = new Map(files.map((file) => [file, needsOf(closureOf(file))]));
/** Files that need packages which are still being installed. All other files can start. */
const waiting = new Set(files.filter((file) => missingPackages(needsOfFile.get(file) ?? []).length > 0));

const workspace = mkdtempSync('/tmp/waybill-test-');
const memory = existsSync('/dev/shm') ? mkdtempSync('/dev/shm/waybill-test-') : undefined;
// PostgreSQL runs as a different user, who must be able to access files in this directory.
chmodSync(workspace, 0o755);
// Must be inside the project, so that bundles and tests use the same packages.
mkdirSync('.tap', { recursive: true });
const bundles = mkdtempSync('.tap/bundles-');
const done: FileResult[] = [];
/** Slow files for which there was no time. */
const leftOut: string[] = [];
let startedFiles = 0;
markRun(workspace);
forgetFoundRows();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, interrupt);

const env = {
  WAYBILL_TEST_SEED: String(seed),
  // Tests always run at least one case of each stratum. A whole run has time for more.
  WAYBILL_TEST_BUDGET: String(environmentNumber('WAYBILL_TEST_BUDGET', 0) ?? (isWhole ? 5 : 2)),
  ...(mode === 'exhaustive' ? { WAYBILL_TEST_EXHAUSTIVE: '1' } : {}),
  // Hides a warning from the AWS SDK. It is about the version of Node.js, which was chosen on purpose.
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
};
Object.assign(process.env, env);
console.log(`${files.length} test files, ${jobs} at a time, seed ${seed}`);
if (isTimed) console.log(`slow tests start in the first ${slowMinutes} minutes, in the order of the seed`);
else if (mode === 'tests' && names.length === 0 && !isWhole)
  console.log(
    'left out: slow tests and long samples (npm test -- --all) and the matrix (npm run test:matrix)',
  );
nameLocalhost();
const bundleOfFile = await bundle(files, bundles);
const radosgw = shareRadosgw(
  files.filter((file) => needsOfFile.get(file)?.includes('radosgw')),
  memory,
);
const installed = install([...new Set([...needsOfFile.values()].flat())]);
const progress = report(files.length, { stream: process.stdout, isVerbose });
await runAll(longestFirst(files));
// They do not need the shared server any more.
for (const file of leftOut) await radosgw.ended(file);
if (!isStrict && mode !== 'exhaustive' && jobs > 1) await retryFailed();
progress.close();
removeWorkspaces();
process.exitCode = conclude();

interface Arguments {
  mode: Mode;
  names: string[];
  isVerbose: boolean;
  isResumed: boolean;
  isStrict: boolean;
  isWhole: boolean;
  isRecorded: boolean;
}

function readArguments(): Arguments {
  const flag = { type: 'boolean', default: false } as const;
  try {
    const { values, positionals } = parseArgs({
      options: {
        matrix: flag,
        exhaustive: flag,
        verbose: flag,
        resume: flag,
        strict: flag,
        all: flag,
        record: flag,
        help: flag,
      },
      allowPositionals: true,
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    if (values.record && (!values.all || positionals.length > 0))
      fail('--record needs a run of all tests: npm test -- --all --record');
    const mode = values.exhaustive ? 'exhaustive' : values.matrix ? 'matrix' : 'tests';
    if (values.resume && mode !== 'exhaustive')
      fail('--resume belongs to npm run test:exhaustive: npm run test:exhaustive -- --resume');
    return {
      mode,
      names: positionals,
      isVerbose: values.verbose || isCi,
      isResumed: values.resume,
      isStrict: values.strict,
      isWhole: values.all,
      isRecorded: values.record,
    };
  } catch (error) {
    if (error instanceof TypeError) return fail(error.message);
    throw error;
  }
}

/** Reads a number from the environment; undefined if the variable is not set. */
function environmentNumber(name: string, min: number): number | undefined {
  const value = process.env[name];
  if (value === undefined) return undefined;
  const number = Number(value);
  if (value.trim() !== '' && Number.isFinite(number) && number >= min) return number;
  return fail(`${name} must be a number of at least ${min}, not "${value}"`);
}

function select(): string[] {
  try {
    const selected = selectFiles({
      mode,
      names,
      isWhole: isWhole || isTimed,
      matrixTurn: isTimed ? seed : undefined,
    });
    const remaining = isResumed ? selected.filter((file) => !results.hasPassed(file)) : selected;
    if (remaining.length > 0) return remaining;
    console.log(results.table());
    console.log('every selected suite passed on these sources; without --resume they run again');
    process.exit(0);
  } catch (error) {
    if (error instanceof SelectionError) return fail(error.message);
    throw error;
  }
}

async function runAll(files: readonly string[]): Promise<void> {
  let queue = [...files];
  let refusal: string | undefined;
  const ready = installed.then((reason) => {
    refusal = reason;
    waiting.clear();
  });
  const next = async (): Promise<string | undefined> => {
    if (isTimed && performance.now() > slowMinutes * 60_000) {
      leftOut.push(...queue.filter(isSlow));
      queue = queue.filter((file) => !isSlow(file));
    }
    const index = queue.findIndex((file) => !waiting.has(file));
    if (index === -1 && queue.length > 0) await ready;
    return queue.splice(Math.max(0, index), 1)[0];
  };
  const work = async (): Promise<void> => {
    for (let file = await next(); file !== undefined; file = await next()) {
      const result = await runOne(file, refusal);
      done.push(result);
      if (mode === 'exhaustive') results.record(result);
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, queue.length) }, work));
}

/** @param refusal Why the Debian packages could not be installed. Undefined if they could. */
async function runOne(file: string, refusal?: string): Promise<FileResult> {
  const place = `${(startedFiles += 1)}`;
  progress.started(file);
  const directories = [workspace, memory].map((root) => root && path.join(root, place));
  const program = bundleOfFile.get(file) as string;
  const more = refusal === undefined ? await radosgw.variablesFor(file) : { WAYBILL_TEST_REFUSAL: refusal };
  const settings = { env: { ...env, ...more }, directories, skipsMissing: !isCi };
  const result = await runFile(file, program, settings);
  await radosgw.ended(file);
  progress.ended(result);
  return result;
}

/** Runs failed files again, one at a time. If a file passes this time, its failures are flaky. */
async function retryFailed(): Promise<void> {
  const failed = done.filter(({ failures }) => failures.length > 0);
  if (failed.length > maxRetriedFiles) return;
  for (const first of failed) {
    console.log(`${first.file} failed, and runs again alone`);
    const second = await runOne(first.file);
    if (second.failures.length > 0) continue;
    done.splice(done.indexOf(first), 1, { ...second, flaky: first.failures });
  }
}

/**
 * Stops everything: kills all processes of this run, removes its directories, and reports the tests that have
 * finished.
 */
function interrupt(): void {
  progress.close();
  console.log('\ninterrupted: ending all tests and the servers that they started');
  const left = endRun(workspace);
  removeWorkspaces();
  summarize();
  console.log(`interrupted after ${done.length} of ${files.length} files`);
  if (left.length > 0) console.log(`these processes could not be ended:\n${left.join('\n')}`);
  process.exit(130);
}

/** Prints a summary and returns the exit code. */
function conclude(): number {
  const { passed, failed, skipped } = summarize();
  if (passed + failed === 0) fail('no test ran');
  if (skipped > 0 && isCi) fail('a test was skipped, which CI does not allow');
  return failed > 0 ? 1 : 0;
}

function summarize(): { passed: number; failed: number; skipped: number } {
  const ended = done.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const sum = (count: (result: FileResult) => number): number =>
    ended.reduce((all, one) => all + count(one), 0);
  const [passed, failed] = [sum(({ passed }) => passed), sum(({ failures }) => failures.length)];
  const flaky = sum(({ flaky }) => flaky.length);
  const skipped = sum(({ skipped }) => skipped.length);
  if (leftOut.length > 0) console.log(`\nno time for ${leftOut.length} slow files: ${leftOut.join(' ')}`);
  if (skipped > 0) console.log('');
  for (const { file, skipped } of ended)
    for (const { name, detail } of skipped) console.log(`SKIPPED  ${file} › ${name}: ${detail}`);
  if (isVerbose) {
    console.log(`\n${maxExpensive(ended)}\n`);
    for (const line of ended.flatMap(({ reports }) => reports).sort()) console.log(line);
  }
  if (mode === 'exhaustive') console.log(`\n${results.table()}`);
  for (const table of foundTables()) console.log(`\n${table}`);
  saveTimes(ended);
  if (isRecorded && done.length === files.length) recordCosts(ended);
  console.log(`\nseed ${seed}; WAYBILL_TEST_SEED=${seed} npm test draws the same samples`);
  // Print failures last, because some CI systems only keep the end of the output.
  if (flaky > 0) console.log('\nflaky (failed next to other files, passed alone; please fix or report it):');
  for (const { file, flaky } of ended) for (const { name } of flaky) console.log(`FLAKY   ${file} › ${name}`);
  if (failed > 0) console.log('\nfailed (the details were printed when each file ended):');
  for (const { file, failures } of ended)
    for (const { name } of failures) console.log(`FAILED  ${file} › ${name}`);
  const others = [flaky > 0 ? `, ${flaky} flaky` : '', skipped > 0 ? `, ${skipped} skipped` : ''];
  console.log(`\n${passed} passed, ${failed} failed${others.join('')}`);
  return { passed, failed, skipped };
}

/** Installs the Debian packages that these files need. Returns the reason if that is not possible. */
async function install(names: readonly NeedName[]): Promise<string | undefined> {
  const packages = missingPackages(names);
  if (packages.length === 0) return undefined;
  console.log(`installing Debian packages for ${waiting.size} of them: ${packages.join(', ')}`);
  let reported = '';
  const onLocked = (output: string): void => {
    const holder = /held by (process \d+ \([^)]*\))/.exec(output)?.[1] ?? 'another process';
    if (reported !== holder) console.log(`apt is in use by ${holder}; waiting for it`);
    reported = holder;
  };
  try {
    await installMissing(names, { onLocked });
    return undefined;
  } catch (error) {
    if (!(error instanceof MissingService)) throw error;
    if (isCi) {
      endRun(workspace);
      removeWorkspaces();
      fail(error.message);
    }
    console.log(`${error.message}\nThe tests that need these packages are skipped.`);
    return error.reason;
  }
}

function removeWorkspaces(): void {
  for (const directory of [workspace, memory, bundles])
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}

/**
 * Sorts files by how long they took the last time, longest first, so that no long file is left for the end.
 * If that is unknown, it is estimated from the recorded costs and from the servers that a file starts.
 */
function longestFirst(names: readonly string[]): string[] {
  const times = readTimes();
  const weight = (name: string): number =>
    times[name] ??
    (name.startsWith('test/matrix/') ? 300_000 : 5_000 * costOf(name)) +
      20_000 * (needsOfFile.get(name)?.length ?? 0);
  const sorted = names.toSorted((a, b) => weight(b) - weight(a));
  if (!isTimed) return sorted;
  return [...sorted.filter((name) => !isSlow(name)), ...shuffled(names.filter(isSlow), seed)];
}

function readTimes(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(timesFile, 'utf8')) as Record<string, number>;
  } catch {
    return {};
  }
}

function saveTimes(results: readonly FileResult[]): void {
  if (mode === 'exhaustive') return;
  const times = Object.fromEntries(results.map(({ file, ms }) => [file, Math.round(ms)]));
  writeFileSync(timesFile, JSON.stringify({ ...readTimes(), ...times }));
}

function fail(message: string): never {
  console.error(`npm test: ${message}`);
  process.exit(2);
}
