import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { bundleWorker } from '../scripts/mutate/bundle.ts';
import { instrument, type SourceMutant } from '../scripts/mutate/instrument.ts';
import { type Judged, summarise } from '../scripts/mutate/report.ts';
import { Results } from '../scripts/mutate/results.ts';
import { Runner } from '../scripts/mutate/runner.ts';
import { Chances, type Reaching, type Status, stepsFor, tryOut } from '../scripts/mutate/trial.ts';
import type { Measured } from '../scripts/mutate/units.ts';

const source = `
  export async function commit(lease: { fence(): Promise<void> }, count: number): Promise<string> {
    await lease.fence();
    log.warn({ count }, 'it is committed');
    context.log.info({ count }, 'so it is');
    if (count > 2) throw new Error(\`there are \${count} of them\`, { hint: 'less' });
    return 'done';
  }
`;

t.test('removes statements, but does not change text for users', async (t) => {
  const file = `${t.testdir()}/commit.ts`;
  writeFileSync(file, source);
  const { sources, mutants } = await instrument([file]);
  t.match(sources.get(file), /stryMutAct/);
  const describe = (one: SourceMutant): string =>
    `${one.line} ${one.mutator}: ${one.original} → ${one.replacement}`;
  const run = mutants.filter(({ ignored }) => ignored === undefined).map(describe);
  t.ok(run.includes('3 StatementRemoval: await lease.fence(); → ;'), run.join('\n'));
  t.ok(run.includes('6 EqualityOperator: count > 2 → count >= 2'));
  t.ok(run.includes('7 StringLiteral: \'done\' → ""'));
  const ignored = mutants.filter(({ ignored }) => ignored !== undefined);
  t.same(
    ignored.map(({ line, original }) => [line, original]),
    [
      [4, "log.warn({ count }, 'it is committed');"],
      [4, '{ count }'],
      [4, "'it is committed'"],
      [5, "context.log.info({ count }, 'so it is');"],
      [5, '{ count }'],
      [5, "'so it is'"],
      [6, '`there are ${count} of them`'],
      [6, "{ hint: 'less' }"],
      [6, "'less'"],
    ],
  );
});

const mutant = (file: string, original: string): SourceMutant => ({
  id: original,
  file,
  line: 1,
  place: original,
  context: `if (${original})`,
  mutator: 'ConditionalExpression',
  original,
  replacement: 'true',
});

t.test('a survivor needs a reason, and a reason needs a survivor', async (t) => {
  const judged = (
    [
      ['src/core/a/x.ts', 'one', 'killed'],
      ['src/core/a/x.ts', 'two', 'timeout'],
      ['src/core/a/y.ts', 'three', 'survived'],
      ['src/core/b/z.ts', 'four', 'unreached'],
    ] as const
  ).map(([file, original, status]: readonly [string, string, Status]): Judged => [
    mutant(file, original),
    { status },
  ]);
  const accepted = (file: string, original: string) => {
    const { context, replacement } = mutant(file, original);
    return { file, context, original, replacement };
  };
  const survivors = [
    { reason: 'equivalent', mutants: [accepted('src/core/a/y.ts', 'three')] },
    {
      reason: 'it was once',
      mutants: [accepted('src/core/a/x.ts', 'one'), accepted('src/core/c.ts', 'not run')],
    },
  ];
  const summary = summarise(judged, survivors);
  t.same(
    summary.explained.map(([{ original }]) => original),
    ['three'],
  );
  t.same(
    summary.unexplained.map(([{ original }]) => original),
    ['four'],
  );
  t.same(
    summary.outdated.map(({ original }) => original),
    ['one'],
  );
  t.equal(summary.score, 50);
  t.match(summary.table.at(-1), /^all +4 +1 +1 +2 +1 +50\.0$/);
});

t.test('matches a survivor on a long line with the list, whole or shortened as printed', async (t) => {
  const file = `${t.testdir()}/long.ts`;
  const line = `export const long = (count: number): boolean => count > 2 || '${'x'.repeat(90)}' === '';`;
  writeFileSync(file, line);
  const [survivor] = (await instrument([file])).mutants.filter(({ original }) => original === 'count > 2');
  if (survivor === undefined) throw new Error('no mutant');
  t.match(survivor.context, /^export const long .*x…$/);
  for (const context of [line, survivor.context]) {
    const { original, replacement } = survivor;
    const accepted = [{ reason: 'equivalent', mutants: [{ file, context, original, replacement }] }];
    const { unexplained, outdated } = summarise([[survivor, { status: 'survived' }]], accepted);
    t.same([unexplained, outdated], [[], []]);
  }
});

const measuredFile = (
  test: string,
  units: readonly (Measured['units'][number] & { reached?: string[] })[],
  loading: string[] = [],
): Reaching => ({
  test,
  bundle: `${test}.mjs`,
  inputs: [],
  digest: '',
  ms: 1000,
  loading,
  units,
  reached: units.map(({ reached = [] }) => new Set(reached)),
});

t.test('runs a mutant with the tests that reach it, beginning with those that mirror its file', async (t) => {
  const measured = [
    measuredFile('test/slow.test.ts', [{ ms: 500, hits: { m: 2 } }]),
    measuredFile('test/core/a/x.test.ts', [
      { only: 0, ms: 600, hits: { m: 1 } },
      { only: 1, ms: 1, hits: {} },
      { only: 2, ms: 90, hits: { m: 1 } },
      { only: 3, ms: 90, hits: { m: 1 } },
    ]),
    measuredFile('test/quick.test.ts', [{ ms: 100, hits: { m: 1 } }]),
    measuredFile('test/elsewhere.test.ts', [{ ms: 1, hits: { other: 1 } }]),
  ];
  const steps = stepsFor(mutant('src/core/a/x.ts', 'm'), measured);
  t.same(
    steps.map(({ test, only, reload }) => [test, only, reload]),
    [
      ['test/core/a/x.test.ts', [2, 3], undefined],
      ['test/core/a/x.test.ts', [0], undefined],
      ['test/quick.test.ts', undefined, undefined],
      ['test/slow.test.ts', undefined, undefined],
    ],
  );
  const chances = new Chances();
  for (let turn = 0; turn < 10; turn += 1) {
    chances.learn('src/core/a/x.ts', 'test/core/a/x.test.ts', false);
    chances.learn('src/core/a/x.ts', 'test/slow.test.ts', true);
  }
  t.equal(
    stepsFor(mutant('src/core/a/x.ts', 'm'), measured, chances)[0]?.test,
    'test/slow.test.ts',
    'tests that noticed adjacent mutants run first',
  );
});

t.test('a mutant of module code runs with all tests that reach its file', async (t) => {
  const near = [
    measuredFile('test/far.test.ts', [{ ms: 1, hits: { b: 1 }, reached: ['src/core/b.ts'] }], ['m']),
    measuredFile(
      'test/near.test.ts',
      [
        { only: 0, ms: 5, hits: {} },
        { only: 1, ms: 5, hits: { n: 1 }, reached: ['src/core/a/x.ts'] },
      ],
      ['m'],
    ),
  ];
  const describe = (measured: Reaching[]) =>
    stepsFor(mutant('src/core/a/x.ts', 'm'), measured).map(({ test, only, reload }) => [test, only, reload]);
  t.same(describe(near), [['test/near.test.ts', [1], true]]);
  t.same(
    describe(near.slice(0, 1)),
    [['test/far.test.ts', undefined, true]],
    'and with all tests if no test reaches it',
  );
});

t.test('keeps the result of a mutant for each test file until the file changes', async (t) => {
  const directory = t.testdir({ 'x.ts': 'one', 'a.test.ts': 'a', 'b.test.ts': 'b' });
  const [file, a, b] = ['x.ts', 'a.test.ts', 'b.test.ts'].map((name) => path.join(directory, name)) as [
    string,
    string,
    string,
  ];
  const [survivor, noticed] = [mutant(file, 'one'), mutant(file, 'two')];
  const kept = path.join(directory, 'results.json');
  const results = new Results(kept, false);
  results.keepPassed(survivor, a);
  results.keepPassed(survivor, b);
  results.keepNoticed(noticed, { status: 'killed', by: 'a test', test: b });
  results.save();
  const known = (isFresh = false) => {
    const again = new Results(kept, isFresh);
    return [again.hasPassed(survivor, a), again.hasPassed(survivor, b), again.noticed(noticed)?.by];
  };
  t.same(known(), [true, true, 'a test']);
  results.keepPassed(noticed, a, [1, 3]);
  results.keepPassed(noticed, a, [2]);
  t.ok(results.hasPassed(noticed, a, [1, 2]));
  t.notOk(results.hasPassed(noticed, a, [0, 1]));
  t.notOk(results.hasPassed(noticed, a));
  t.same(known(true), [false, false, undefined]);
  writeFileSync(b, 'another');
  t.same(known(), [true, false, undefined]);
  writeFileSync(file, 'changed');
  t.same(known(), [false, false, undefined]);
});

/** Written by hand: a bundle with the real `tap` would run its tests in this process. */
const spoiling = `
  const t = globalThis.testOfMutants;
  const namespace = globalThis.__stryker__;
  const kept = { count: 0 };
  t.test('a rule', async (t) => {
    kept.count += namespace.activeMutant === 'spoils' ? 1 : 0;
    t.equal(kept.count, 0);
    t.not(namespace.activeMutant, 'fails');
  });
`;

/** Like the instrumented files, it reads the active mutant when its first place is reached. */
const asking = `
  const t = globalThis.testOfMutants;
  let namespace;
  t.test('reaches nothing', async (t) => t.pass());
  t.test('a rule', async (t) => {
    namespace ??= globalThis.__stryker__;
    t.not(namespace.activeMutant, 'fails');
  });
`;

/** Tries mutants in one process, each with some tests of a bundle. */
async function inOneProcess(t: Test) {
  const directory = t.testdir({ 'spoiling.mjs': spoiling, 'asking.mjs': asking, 'passing.txt': '' });
  const runner = new Runner(await bundleWorker('.tap/mutate-test'));
  t.teardown(() => runner.close());
  return async (name: string, test: string, only?: number) => {
    const bundle = path.join(directory, test);
    const unit = { ms: 1, hits: { [name]: 1 }, ...(only === undefined ? {} : { only }) };
    const others = only === undefined ? [] : [{ only: 1 - only, ms: 1, hits: {} }];
    const measured = [{ ...measuredFile(bundle, [unit, ...others]), bundle }];
    const results = new Results(path.join(directory, 'results.json'), true);
    const trial = { measured, runner, results, chances: new Chances(), budgetMs: Infinity };
    const { status } = await tryOut(
      { ...mutant('', name), file: path.join(directory, 'passing.txt') },
      trial,
    );
    return status;
  };
}

t.test('a mutant does not fail because of an earlier one that changed test data', async (t) => {
  const run = await inOneProcess(t);
  for (const [name, status] of [
    ['harmless', 'survived'],
    ['fails', 'killed'],
    ['harmless', 'survived'],
    ['spoils', 'killed'],
    ['harmless', 'survived'],
  ] as const)
    t.equal(await run(name, 'spoiling.mjs'), status, name);
});

t.test('a module that is loaded late uses the active mutant', async (t) => {
  const run = await inOneProcess(t);
  t.equal(await run('fails', 'asking.mjs', 0), 'survived');
  t.equal(await run('harmless', 'spoiling.mjs'), 'survived');
  t.equal(await run('fails', 'asking.mjs', 1), 'killed');
});
