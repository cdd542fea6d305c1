import { writeFileSync } from 'node:fs';
import t from 'tap';
import { instrument, type SourceMutant } from '../scripts/mutate/instrument.ts';
import { summarise, type Judged } from '../scripts/mutate/report.ts';
import { stepsFor, type Status } from '../scripts/mutate/trial.ts';
import type { Measured } from '../scripts/mutate/units.ts';

const source = `
  export async function commit(lease: { fence(): Promise<void> }, count: number): Promise<string> {
    await lease.fence();
    log.warn({ count }, 'it is committed');
    if (count > 2) throw new Error(\`there are \${count} of them\`, { hint: 'less' });
    return 'done';
  }
`;

t.test('a statement is taken out, and words for a person are left alone', async (t) => {
  const file = `${t.testdir()}/commit.ts`;
  writeFileSync(file, source);
  const { sources, mutants } = await instrument([file]);
  t.match(sources.get(file), /stryMutAct/);
  const told = (one: SourceMutant): string =>
    `${one.line} ${one.mutator}: ${one.original} → ${one.replacement}`;
  const run = mutants.filter(({ ignored }) => ignored === undefined).map(told);
  t.ok(run.includes('3 StatementRemoval: await lease.fence(); → ;'), run.join('\n'));
  t.ok(run.includes('5 EqualityOperator: count > 2 → count >= 2'));
  t.ok(run.includes('6 StringLiteral: \'done\' → ""'));
  const ignored = mutants.filter(({ ignored }) => ignored !== undefined);
  t.same(
    ignored.map(({ line, original }) => [line, original]),
    [
      [4, "log.warn({ count }, 'it is committed');"],
      [4, '{ count }'],
      [4, "'it is committed'"],
      [5, '`there are ${count} of them`'],
      [5, "{ hint: 'less' }"],
      [5, "'less'"],
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

t.test('a survivor needs a reason, and a reason a survivor', async (t) => {
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

t.test('a survivor on a long line is found on the list, whole or cut as it was printed', async (t) => {
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

t.test('a mutant is run with the tests that reach it, the mirror of its file first', async (t) => {
  const file = (test: string, units: Measured['units'], loading: string[] = []): Measured => ({
    test,
    bundle: `${test}.mjs`,
    inputs: [],
    digest: '',
    ms: 1000,
    loading,
    units,
  });
  const measured = [
    file('test/slow.test.ts', [{ ms: 500, hits: { m: 2 } }]),
    file('test/core/a/x.test.ts', [
      { only: 0, ms: 600, hits: { m: 1 } },
      { only: 1, ms: 1, hits: {} },
    ]),
    file('test/quick.test.ts', [{ ms: 10, hits: { m: 1 } }]),
    file('test/elsewhere.test.ts', [{ ms: 1, hits: { other: 1 } }]),
    file('test/loading.test.ts', [{ ms: 1, hits: {} }], ['m']),
  ];
  const steps = stepsFor({ ...mutant('src/core/a/x.ts', 'm') }, measured);
  t.same(
    steps.map(({ test, only, reload }) => [test, only, reload]),
    [
      ['test/core/a/x.test.ts', [0], undefined],
      ['test/quick.test.ts', undefined, undefined],
      ['test/slow.test.ts', undefined, undefined],
      ['test/loading.test.ts', undefined, true],
    ],
  );
});
