/**
 * `npm test [FILE…]`: runs the test files side by side, one line each, and says at the end what failed, what
 * the tests say about themselves, and, as its last line, `N passed, N failed[, N skipped]`, which any CI can
 * read.
 *
 * With `CI` set, walks and storms are exhaustive and a skipped test fails the run: a service that is missing
 * there is a defect of the set-up. Without, they take a sample that `WAYBILL_TEST_SEED` chooses.
 */
import { randomInt } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { installMissing, missingPackages, MissingService } from '../test/services/debian.ts';
import { needsOf, type NeedName } from '../test/services/needs.ts';
import { forgetFoundRows, foundTables } from './matrices/matrices.ts';
import { bundle } from './test/bundle.ts';
import { closureOf } from './test/closure.ts';
import { report, type Progress } from './test/report.ts';
import { endAll, runFile, type FileResult } from './test/run-file.ts';
import { shareRadosgw } from './test/shared-radosgw.ts';

const timesFile = '.tap/times.json';
const isCi = process.env['CI'] !== undefined && process.env['CI'] !== 'false';
const seed = Number(process.env['WAYBILL_TEST_SEED'] ?? (isCi ? 20_261_120 : randomInt(1, 1_000_000)));
const jobs = Number(process.env['WAYBILL_TEST_JOBS'] ?? availableParallelism() + 2);

const files = testFiles(process.argv.slice(2));
if (files.length === 0) fail('no test file was found');
const needsOfFile = new Map(files.map((file) => [file, needsOf(closureOf(file))]));
/** These wait until it is installed; the others need not. */
const waiting = new Set(files.filter((file) => missingPackages(needsOfFile.get(file) ?? []).length > 0));

const workspace = mkdtempSync('/tmp/waybill-test-');
const memory = existsSync('/dev/shm') ? mkdtempSync('/dev/shm/waybill-test-') : undefined;
// PostgreSQL runs as a user of its own, who has to pass through.
chmodSync(workspace, 0o755);
// Below the project: a bundle finds its packages where the tests do.
mkdirSync('.tap', { recursive: true });
const bundles = mkdtempSync('.tap/bundles-');
const done: FileResult[] = [];
forgetFoundRows();
const removeWorkspaces = (): void => {
  for (const directory of [workspace, memory, bundles])
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
};
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => {
    endAll();
    removeWorkspaces();
    console.log(`\ninterrupted when ${done.length} of ${files.length} files had ended`);
    conclude(done);
    process.exit(130);
  });

const env = {
  WAYBILL_TEST_SEED: String(seed),
  // The version of Node.js is chosen by whoever runs the tests; the SDK need not say what it thinks of it.
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
};
Object.assign(process.env, env);
const bundleOfFile = await bundle(files, bundles);
const radosgw = shareRadosgw(
  files.filter((file) => needsOfFile.get(file)?.includes('radosgw')),
  memory,
);
const installed = install([...new Set([...needsOfFile.values()].flat())]);
await runAll(longestFirst(files), report(files.length, process.stdout));
removeWorkspaces();
process.exitCode = conclude(done);

async function runAll(queue: string[], progress: Progress): Promise<void> {
  let started = 0;
  let refusal: string | undefined;
  const ready = installed.then((reason) => {
    refusal = reason;
    waiting.clear();
  });
  const next = async (): Promise<string | undefined> => {
    const index = queue.findIndex((file) => !waiting.has(file));
    if (index === -1 && queue.length > 0) await ready;
    return queue.splice(Math.max(0, index), 1)[0];
  };
  const work = async (): Promise<void> => {
    for (let file = await next(); file !== undefined; file = await next()) {
      const place = `${(started += 1)}`;
      progress.started(file);
      const directories = [workspace, memory].map((root) => root && path.join(root, place));
      const program = bundleOfFile.get(file) as string;
      const more =
        refusal === undefined ? await radosgw.variablesFor(file) : { WAYBILL_TEST_REFUSAL: refusal };
      const settings = { env: { ...env, ...more }, directories, skipsMissing: !isCi };
      const result = await runFile(file, program, settings);
      await radosgw.ended(file);
      progress.ended(result);
      done.push(result);
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, queue.length) }, work));
  progress.close();
}

/** Prints what is worth seeing at the end; returns the exit code. */
function conclude(ended: readonly FileResult[]): number {
  const results = ended.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const sum = (count: (result: FileResult) => number): number =>
    results.reduce((all, one) => all + count(one), 0);
  const [passed, failed] = [sum(({ passed }) => passed), sum(({ failures }) => failures.length)];
  const skipped = sum(({ skipped }) => skipped.length);
  if (skipped > 0) console.log('');
  for (const { file, skipped } of results)
    for (const { name, detail } of skipped) console.log(`SKIPPED  ${file} › ${name}: ${detail}`);
  console.log('');
  for (const line of results.flatMap(({ told }) => told).sort()) console.log(line);
  for (const table of foundTables()) console.log(`\n${table}\n`);
  console.log(`seed ${seed}: WAYBILL_TEST_SEED=${seed} npm test draws the same samples`);
  saveTimes(results);
  // Last, since a CI may keep no more than the end of what was printed.
  if (failed > 0) console.log('\nfailed, each with its details where its file ended:');
  for (const { file, failures } of results)
    for (const { name } of failures) console.log(`FAILED  ${file} › ${name}`);
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  if (passed === 0) fail('no test ran');
  if (skipped > 0 && isCi) fail('a test was skipped, which CI does not allow');
  return failed > 0 ? 1 : 0;
}

/** Installs what the chosen files need; returns why that was not possible, if so. */
async function install(names: readonly NeedName[]): Promise<string | undefined> {
  const packages = missingPackages(names);
  if (packages.length === 0) return undefined;
  console.log(`installing ${packages.join(', ')}, which the tests need`);
  let told = '';
  const onLocked = (output: string): void => {
    const holder = /held by (process \d+ \([^)]*\))/.exec(output)?.[1] ?? 'another process';
    if (told !== holder) console.log(`apt is in use by ${holder}; waiting for it`);
    told = holder;
  };
  try {
    await installMissing(names, { onLocked });
    return undefined;
  } catch (error) {
    if (!(error instanceof MissingService)) throw error;
    if (isCi) {
      endAll();
      removeWorkspaces();
      fail(error.message);
    }
    console.log(`${error.message}\nThe tests that need them are skipped.`);
    return error.reason;
  }
}

/** Files and directories as they were given, or all there are. */
function testFiles(given: readonly string[]): string[] {
  const wanted = given.length === 0 ? ['test'] : given;
  const found = wanted.flatMap((name) => {
    if (!existsSync(name)) fail(`there is no ${name}`);
    if (!statSync(name).isDirectory()) return [name];
    const below = readdirSync(name, { recursive: true, encoding: 'utf8' });
    return below.filter((each) => each.endsWith('.test.ts')).map((each) => path.join(name, each));
  });
  return [...new Set(found.map((name) => path.relative('.', path.resolve(name))))].sort();
}

/**
 * By how long they took last time. One of which that is not known counts by the servers that it starts, and
 * by whether it samples: where all its cases run, it would be at work alone when the others have ended.
 */
function longestFirst(names: readonly string[]): string[] {
  const times = readTimes();
  const weight = (name: string): number =>
    times[name] ??
    5_000 + 20_000 * (needsOfFile.get(name)?.length ?? 0) + (isCi && isSampled(name) ? 200_000 : 0);
  return names.toSorted((a, b) => weight(b) - weight(a));
}

function isSampled(name: string): boolean {
  return closureOf(name).some((file) => file.endsWith('test/support/sampling.ts'));
}

function readTimes(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(timesFile, 'utf8')) as Record<string, number>;
  } catch {
    return {};
  }
}

function saveTimes(results: readonly FileResult[]): void {
  mkdirSync(path.dirname(timesFile), { recursive: true });
  const times = Object.fromEntries(results.map(({ file, ms }) => [file, Math.round(ms)]));
  writeFileSync(timesFile, JSON.stringify({ ...readTimes(), ...times }));
}

function fail(message: string): never {
  console.error(`npm test: ${message}`);
  process.exit(1);
}
