import fc from 'fast-check';
import t from 'tap';
import { OrderedRuns } from '../../../src/workers/queue/run-changes.ts';
import { howMany } from '../../support/sampling.ts';

t.test('finds the first of very many runs in one step, and the previous run of any', async (t) => {
  const line = new OrderedRuns<number>();
  let looks = 0;
  const places = Array.from({ length: 50_000 }, (_, item) => line.push(item));
  for (const item of line.newestFirst()) {
    looks += 1;
    t.equal(item, 49_999);
    break;
  }
  t.same([...line.newestFirst(places[1])], [0]);
  t.same([...line.oldestFirst(places[49_998])], [49_999]);
  t.equal(looks, 1);
});

t.test('has the same order as an array, whatever is added and removed (property)', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.nat(40)), { maxLength: 60 }), (steps) => {
      const line = new OrderedRuns<string>();
      let model: { arrival: number; item: string }[] = [];
      for (const [index, removed] of steps.entries()) {
        if (removed === null) model.push({ arrival: line.push(`run ${index}`), item: `run ${index}` });
        else {
          line.remove(removed);
          model = model.filter(({ arrival }) => arrival !== removed);
        }
      }
      const newest = model.toReversed();
      const same = (a: string[], b: { item: string }[]): boolean =>
        JSON.stringify(a) === JSON.stringify(b.map(({ item }) => item));
      return (
        line.length === model.length &&
        same([...line.newestFirst()], newest) &&
        [0, 3, 20].every((before) =>
          same(
            [...line.newestFirst(before)],
            newest.filter(({ arrival }) => arrival < before),
          ),
        ) &&
        same([...line.oldestFirst()], model) &&
        [0, 3, 20].every((after) =>
          same(
            [...line.oldestFirst(after)],
            model.filter(({ arrival }) => arrival > after),
          ),
        )
      );
    }),
    { numRuns: howMany(1000, 200) },
  );
  t.pass('no counterexample');
});
