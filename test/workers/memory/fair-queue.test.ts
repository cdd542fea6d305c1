import fc from 'fast-check';
import t from 'tap';
import { FairQueue } from '../../../src/workers/memory/waiting-runs.ts';

t.test('pipelines take turns, and each keeps its order (property)', async (t) => {
  const step = fc.oneof(
    fc.record({ push: fc.constantFrom('a', 'b', 'c') }),
    fc.record({ remove: fc.nat(10) }),
    fc.record({ take: fc.subarray(['a', 'b', 'c']) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const line = new FairQueue<string>();
      let model: { pipelineId: string; item: string }[] = [];
      const turns: string[] = [];
      for (const [index, what] of steps.entries())
        if ('push' in what) {
          line.push(what.push, `${what.push}${index}`, index);
          model.push({ pipelineId: what.push, item: `${what.push}${index}` });
        } else if ('remove' in what) {
          const gone = model[what.remove] ?? { pipelineId: 'a', item: 'unknown' };
          if (line.remove(gone.pipelineId, gone.item) !== model.includes(gone)) return false;
          model = model.filter((entry) => entry !== gone);
          if (line.length !== model.length) return false;
        } else {
          const [expected] = model
            .filter(({ pipelineId }) => what.take.includes(pipelineId))
            .sort((a, b) => turns.lastIndexOf(a.pipelineId) - turns.lastIndexOf(b.pipelineId));
          if (line.has((pipelineId) => what.take.includes(pipelineId)) !== (expected !== undefined))
            return false;
          if (line.take((pipelineId) => what.take.includes(pipelineId)) !== expected?.item) return false;
          if (expected !== undefined) turns.push(expected.pipelineId);
          model = model.filter((entry) => entry !== expected);
          if (line.length !== model.length) return false;
        }
      const left = model.map(({ item }) => item);
      const counts = ['a', 'b', 'c'].map((id) => model.filter(({ pipelineId }) => pipelineId === id).length);
      if (['a', 'b', 'c'].map((id) => line.lengthOf(id)).join() !== counts.join()) return false;
      return (
        line.takeAll().join() === left.join() && line.length === 0 && line.take(() => true) === undefined
      );
    }),
    { numRuns: 2_000 },
  );
  t.pass();
});
