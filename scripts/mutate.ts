/**
 * `npm run mutate [-- PATH… --fresh --quick]`: changes the source in one place at a time and runs the tests
 * that reach the place. A change that no test notices survives. Fails if less than 90 % of the changes are
 * noticed, or if a survivor is not listed with its reason in `scripts/mutate/survivors.json`.
 *
 * Stryker's instrumenter puts all changes into the source at once, each behind a switch; each test file is
 * bundled with that source and run in one process again and again, with one switch on.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { needsOf } from '../test/services/needs.ts';
import { bundleTests, bundleWorker } from './mutate/bundle.ts';
import { instrument, type SourceMutant } from './mutate/instrument.ts';
import { summarise, told, type Acceptance, type Judged } from './mutate/report.ts';
import { Results } from './mutate/results.ts';
import { Runner } from './mutate/runner.ts';
import { stepsFor, tryOut } from './mutate/trial.ts';
import { measureAll, type Measured } from './mutate/units.ts';
import { closureOf } from './test/closure.ts';

/** What the campaign covers: publication, its catalog and its guards, and what may come in. */
const scope = [
  'src/core/archive',
  'src/core/bundle/extract-archive.ts',
  'src/core/bundle/listed-files.ts',
  'src/core/case-folding.ts',
  'src/core/catalog',
  'src/core/lease',
  'src/core/maintain',
  'src/core/paths.ts',
  'src/core/publish',
  'src/core/reserved-names.ts',
];
/** Walks and properties of seconds each: run for what all the others let through, and not by `--quick`. */
const slow = [
  'test/core/publish/dry-run.test.ts',
  'test/core/publish/incremental/local.test.ts',
  'test/core/publish/refusals/catalog-size.test.ts',
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
const all = ['test/core', 'test/faults'].flatMap((name) => filesBelow(name, '.test.ts')).filter(isOfUse);
const running = wanted.filter(({ ignored }) => ignored === undefined);
const [quickly, slowly] = [all.filter((test) => !slow.includes(test)), values.quick ? [] : slow];
const first = await judgeAll(running, await measuredTests(quickly));
const left = first.filter(([, { status }]) => status === 'survived' || status === 'unreached');
const second = new Map(
  slowly.length === 0
    ? []
    : await judgeAll(
        left.map(([mutant]) => mutant),
        await measuredTests(slowly),
      ),
);
const judged = first.map(([mutant, verdict]): Judged => {
  const later = second.get(mutant);
  return [mutant, later === undefined || later.status === 'unreached' ? verdict : later];
});
for (const runner of runners) runner.close();
process.exitCode = conclude();

/** What needs a server takes too long to run for each change, and a process of its own has none of them. */
function isOfUse(file: string): boolean {
  const closure = closureOf(file);
  const text = closure.map((name) => readFileSync(name, 'utf8')).join('');
  return needsOf(closure).length === 0 && !text.includes("'node:child_process'");
}

/** Those that may reach what was chosen, bundled and measured. */
async function measuredTests(files: readonly string[]): Promise<Measured[]> {
  const bundles = await bundleTests(files, sources, directory);
  const reaching = bundles.filter(({ inputs }) =>
    inputs.some((input) => sources.has(input) && chosen(input)),
  );
  return measureAll(reaching, runners, path.join(directory, 'measured.json'), (line) => console.log(line));
}

/** Each runner takes the next one that nobody has taken. */
async function judgeAll(mutants: readonly SourceMutant[], measured: readonly Measured[]): Promise<Judged[]> {
  const judged: Judged[] = [];
  const next = mutants.entries();
  let saved = Date.now();
  let survivors = 0;
  let done = 0;
  await Promise.all(
    runners.map(async (runner) => {
      for (const [index, mutant] of next) {
        const names = stepsFor(mutant, measured).map(({ test }) => test);
        let verdict = results.find(mutant, names);
        if (verdict === undefined) {
          verdict = await tryOut(mutant, measured, runner);
          results.keep(mutant, names, verdict);
        }
        judged[index] = [mutant, verdict];
        done += 1;
        if (verdict.status === 'survived' || verdict.status === 'unreached') survivors += 1;
        if (Date.now() - saved < saveEveryMs) continue;
        saved = Date.now();
        results.save();
        console.log(`${done} of ${mutants.length}, ${survivors} survivors: ${mutant.file}`);
      }
    }),
  );
  results.save();
  return judged;
}

/** Prints what came out; returns the exit code. */
function conclude(): number {
  const accepted = JSON.parse(readFileSync('scripts/mutate/survivors.json', 'utf8')) as Acceptance[];
  const { table, unexplained, outdated, score } = summarise(judged, accepted);
  const unnamed = unexplained.map(([{ file, context, original, replacement }]) => ({
    file,
    context,
    original,
    replacement,
  }));
  writeFileSync(path.join(directory, 'survivors.json'), JSON.stringify(unnamed, undefined, 2));
  for (const [mutant, verdict] of unexplained) console.log(`\n${told(mutant, verdict)}`);
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
