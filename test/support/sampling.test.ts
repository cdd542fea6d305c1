import t from 'tap';
import { type Case, drawn, howMany, isExhaustive, sampleOf, seed, walkCases } from './sampling.ts';

const caseOf = (stratum: string, number: number): Case => ({
  name: `${stratum} ${number}`,
  stratum,
  run: async () => [],
});
/** 200 cases in which one stratum is rare. */
const cases: readonly Case[] = [
  ...Array.from({ length: 150 }, (_, number) => caseOf('common', number)),
  ...Array.from({ length: 49 }, (_, number) => caseOf('less common', number)),
  caseOf('rare', 0),
];

/** Replaces a test: collects the reports of a walk. */
function reports(): { test: Parameters<typeof walkCases>[0]; failures: string[]; comments: string[] } {
  const [failures, comments]: [string[], string[]] = [[], []];
  const test = {
    same: (found: readonly string[]) => failures.push(...found),
    comment: (text: string) => comments.push(text),
  };
  return { test: test as unknown as Parameters<typeof walkCases>[0], failures, comments };
}

async function withBudget<T>(seconds: string, work: () => Promise<T>): Promise<T> {
  const before = process.env['WAYBILL_TEST_BUDGET'];
  process.env['WAYBILL_TEST_BUDGET'] = seconds;
  return work().finally(() => {
    if (before === undefined) delete process.env['WAYBILL_TEST_BUDGET'];
    else process.env['WAYBILL_TEST_BUDGET'] = before;
  });
}

t.test('a sample begins with one case of each stratum, and has each case once', async (t) => {
  const order = drawn(cases, 'walk');
  t.same(new Set(order.slice(0, 3).map(({ stratum }) => stratum)).size, 3);
  t.equal(new Set(order.map(({ name }) => name)).size, cases.length);
  t.same(drawn(cases, 'walk'), order, 'the same order again');
  t.notSame(drawn(cases, 'another walk'), order);
});

t.test('without time, one case of each stratum runs', async (t) => {
  const ran: string[] = [];
  const recording = cases.map((one) => ({
    ...one,
    run: async () => {
      ran.push(one.stratum);
      return [];
    },
  }));
  const { test, failures, comments } = reports();
  const strata = await withBudget('0', () => walkCases(test, recording, { what: 'cases' }));
  t.same([...strata].sort(), ['common', 'less common', 'rare']);
  t.same(ran.sort(), isExhaustive ? cases.map(({ stratum }) => stratum).sort() : [...strata].sort());
  t.same(failures, []);
  t.match(comments, [isExhaustive ? 'report: 200 cases, 3 strata' : 'report: 3 of 200 cases, 3 strata']);
});

t.test('the error of a failing case names the seed, whether it returns or throws', async (t) => {
  const failing: Case[] = [
    { ...caseOf('a', 1), run: async () => ['one is missing'] },
    { ...caseOf('b', 2), run: async () => Promise.reject(new Error('no answer')) },
  ];
  const { test, failures } = reports();
  await walkCases(test, failing, { what: 'cases' });
  t.match(failures.sort(), [`seed ${seed}: a 1: one is missing`, `seed ${seed}: b 2: Error: no answer`]);
});

t.test('rejects a budget that is not a number', async (t) => {
  const { test } = reports();
  await t.rejects(
    withBudget('20s', () => walkCases(test, cases, { what: 'cases' })),
    { message: 'WAYBILL_TEST_BUDGET is not a number: 20s' },
  );
});

t.test('a sample keeps the order, and has at least one case', async (t) => {
  const all = ['a', 'b', 'c', 'd'];
  const sample = sampleOf(all, 2, 'letters');
  t.equal(sample.length, isExhaustive ? 4 : 2);
  t.same([...sample].sort(), sample);
  t.equal(howMany(10, 0), isExhaustive ? 10 : 1);
});
