/**
 * `npm run mutate [-- PATH… --fresh --quick]`: mutation testing. Changes the source in one place at a time,
 * and runs the tests that reach this place. If no test fails, the change has survived. Fails if less than 90
 * % of the changes make a test fail, or if one survives that is not explained in
 * `scripts/mutate/survivors.json`. With `--quick`, only runs the tests that are most likely to fail soon.
 *
 * To make this fast, all changes are inserted into the source at once by Stryker's instrumenter, and can be
 * switched on one at a time. Each test file is bundled with this source, and then run many times in the same
 * process.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { needsOf } from '../test/services/needs.ts';
import { bundleTests, bundleWorker } from './mutate/bundle.ts';
import { instrument, type SourceMutant } from './mutate/instrument.ts';
import {
  type Acceptance,
  isListed,
  isNoticed,
  type Judged,
  summarise,
  describeMutant,
} from './mutate/report.ts';
import { Results } from './mutate/results.ts';
import { Runner } from './mutate/runner.ts';
import { Chances, tryOut, type Verdict, withReached } from './mutate/trial.ts';
import { measureAll, type Measured } from './mutate/units.ts';
import { closureOf } from './test/closure.ts';

/** The code to mutate: publishing, including its catalog and safety checks, and the validation of input. */
const scope = [
  'src/core/bundle/archive',
  'src/core/bundle/extract-archive.ts',
  'src/core/bundle/listed-files.ts',
  'src/core/lib/text.ts',
  'src/core/catalog',
  'src/core/catalog/lease',
  'src/core/maintain',
  'src/core/lib/paths.ts',
  'src/core/publish',
  'src/core/lib/paths.ts',
];
/**
 * Random walks and property tests that take seconds. Only used for mutants that have survived everything
 * else.
 */
const slow = [
  'test/core/publish/dry-run.test.ts',
  'test/core/publish/incremental/local.test.ts',
  'test/core/publish/decision/catalog-size.test.ts',
  'test/faults/every-fault.test.ts',
  'test/faults/first-publications.test.ts',
  'test/faults/fixed-runs.test.ts',
  'test/faults/frozen-publisher.test.ts',
  'test/faults/two-publishers.test.ts',
  'test/faults/without-conditions.test.ts',
];
const directory = '.tap/mutate';
const least = 90;
const saveEveryMs = 10_000;
/** The time limit for all quick tests of a mutant together, in milliseconds. */
const quickMs = 1_500;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    fresh: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
  },
});
const chosen = (file: string): boolean =>
  positionals.length === 0 || positionals.some((given) => isBelow(file, path.normalize(given)));

mkdirSync(directory, { recursive: true });
const files = scope.flatMap((name) => filesBelow(name, '.ts'));
const { sources, mutants } = await instrument(files);
const wanted = mutants.filter(({ file }) => chosen(file));
if (wanted.length === 0) fail(`nothing to change in ${positionals.join(', ')}; covered: ${scope.join(', ')}`);
const worker = await bundleWorker(directory);
const runners = Array.from({ length: availableParallelism() }, () => new Runner(worker));
process.once('SIGINT', () => {
  for (const runner of runners) runner.close();
  results.save();
  process.exit(130);
});
const results = new Results(path.join(directory, 'results.json'), values.fresh);
const chances = new Chances();
const accepted = JSON.parse(readFileSync('scripts/mutate/survivors.json', 'utf8')) as Acceptance[];
const all = ['test/core', 'test/faults'].flatMap((name) => filesBelow(name, '.test.ts')).filter(isOfUse);
const running = wanted.filter(({ ignored }) => ignored === undefined);
const verdicts = new Map<SourceMutant, Verdict>();
await judge(running);
const judged = running.map((mutant): Judged => [mutant, verdicts.get(mutant) ?? { status: 'unreached' }]);
for (const runner of runners) runner.close();
process.exitCode = conclude();

/**
 * Skips tests that need a server, because they are too slow, and tests of child processes, in which there are
 * no mutants.
 */
function isOfUse(file: string): boolean {
  const closure = closureOf(file);
  const text = closure.map((name) => readFileSync(name, 'utf8')).join('');
  return needsOf(closure).length === 0 && !text.includes("'node:child_process'");
}

/** Bundles all test files that can reach the selected source files, and measures how long they take. */
async function measuredTests(files: readonly string[]): Promise<Measured[]> {
  const bundles = await bundleTests(files, sources, directory);
  const reaching = bundles.filter(({ inputs }) =>
    inputs.some((input) => sources.has(input) && chosen(input)),
  );
  return measureAll(reaching, runners, path.join(directory, 'measured.json'), (line) => console.log(line));
}

/**
 * Quick tests catch most mutants, so they run first, for all mutants. The survivors run with the other tests
 * and then with the random walks, unless they are listed as survivors.
 */
async function judge(mutants: readonly SourceMutant[]): Promise<void> {
  const tests = await measuredTests(all.filter((test) => !slow.includes(test)));
  await tryAll('quick tests', mutants, tests, quickMs);
  if (values.quick) return;
  const isLeft = (mutant: SourceMutant): boolean =>
    !isNoticed(verdicts.get(mutant)) && !isListed(mutant, accepted);
  await tryAll('all tests', mutants.filter(isLeft), tests, Infinity);
  const left = mutants.filter(isLeft);
  if (left.length > 0) await tryAll('walks', left, await measuredTests(slow), Infinity);
}

/** Runs items in parallel. As soon as a runner is free, it gets the next one. */
async function tryAll(
  what: string,
  mutants: readonly SourceMutant[],
  tests: readonly Measured[],
  budgetMs: number,
): Promise<void> {
  const measured = withReached(tests, running);
  const next = mutants.entries();
  let saved = Date.now();
  let left = 0;
  await Promise.all(
    runners.map(async (runner) => {
      for (const [index, mutant] of next) {
        const verdict = await tryOut(mutant, { measured, runner, results, chances, budgetMs });
        if (verdict.status !== 'unreached' || !verdicts.has(mutant)) verdicts.set(mutant, verdict);
        if (!isNoticed(verdict)) left += 1;
        if (Date.now() - saved < saveEveryMs) continue;
        saved = Date.now();
        results.save();
        console.log(`${what}: ${index + 1} of ${mutants.length}, ${left} left: ${mutant.file}`);
      }
    }),
  );
  results.save();
}

/** Prints a summary and returns the exit code. */
function conclude(): number {
  const { table, unexplained, outdated, score } = summarise(judged, accepted);
  const unnamed = unexplained.map(([{ file, context, original, replacement }]) => ({
    file,
    context,
    original,
    replacement,
  }));
  writeFileSync(path.join(directory, 'survivors.json'), JSON.stringify(unnamed, undefined, 2));
  for (const [mutant, verdict] of unexplained) console.log(`\n${describeMutant(mutant, verdict)}`);
  for (const { file, context } of outdated)
    console.log(`\nlisted, but does not survive: ${file}: ${context}`);
  console.log(`\n${table.join('\n')}`);
  const ignored = wanted.filter((one) => one.ignored !== undefined).length;
  console.log(`\n${ignored} not run, because they change words for a person.`);
  return unexplained.length > 0 || score < least ? 1 : 0;
}

function filesBelow(name: string, ending: string): string[] {
  if (!existsSync(name)) fail(`there is no ${name}`);
  if (!statSync(name).isDirectory()) return [name];
  const below = readdirSync(name, { recursive: true, encoding: 'utf8' });
  return below
    .filter((each) => each.endsWith(ending))
    .map((each) => path.join(name, each))
    .sort();
}

function isBelow(file: string, given: string): boolean {
  const folder = given.replace(/\/$/, '');
  return file === folder || file.startsWith(`${folder}/`);
}

function fail(message: string): never {
  console.error(`npm run mutate: ${message}`);
  process.exit(1);
}
