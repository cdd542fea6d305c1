import t from 'tap';
import { pipelineOfRun, shardMap } from '../../../../src/workers/bullmq/shards/shards.ts';
import { newRunId } from '../../../../src/workers/queue/start-run.ts';

const ids = Array.from({ length: 3_000 }, (_, index) => `pipeline-${index}`);

t.test('pipelines are shared out evenly, by names alone, in whatever order they stand', async (t) => {
  const [one, other] = [shardMap(['A', 'B', 'C']), shardMap(['C', 'A', 'B'])];
  const counts = [0, 0, 0];
  const ownerNames = (map: typeof one): unknown[] => ids.map((id) => map.names[map.ownerOf(id)]);
  t.same(ownerNames(other), ownerNames(one));
  t.same(ownerNames(one), ownerNames(one), 'the same each time');
  for (const id of ids) counts[one.ownerOf(id)]! += 1;
  for (const count of counts) t.ok(count > 850 && count < 1_150, `${count} of ${ids.length}`);
});

t.test('one more name takes over its share, and moves nothing else', async (t) => {
  const [before, after] = [shardMap(['A', 'B', 'C']), shardMap(['A', 'B', 'C', 'D'])];
  const moved = ids.filter((id) => before.names[before.ownerOf(id)] !== after.names[after.ownerOf(id)]);
  t.same(
    moved.filter((id) => after.names[after.ownerOf(id)] !== 'D'),
    [],
  );
  t.ok(moved.length > 600 && moved.length < 900, `${moved.length} of ${ids.length}`);
});

t.test('never moves a placed pipeline: the hash must not change', async (t) => {
  const { ownerOf } = shardMap(['WAYBILL_REDIS_URL_A', 'WAYBILL_REDIS_URL_B', 'WAYBILL_REDIS_URL_C']);
  t.same(
    ['maps', 'docs', 'nightly', 'a', 'b', 'c'].map((id) => ownerOf(id)),
    [2, 1, 1, 0, 2, 2],
  );
});

t.test('the pipeline of a run is part of its id, whatever its name is', async (t) => {
  for (const id of ['maps', 'a-b_c', 'x', '20261120T020434Z'])
    t.equal(pipelineOfRun(newRunId(id, new Date('2026-11-20T02:04:34Z'))), id);
  t.equal(pipelineOfRun('maps.20261120T020434Z.k3f9q2ab7x'), 'maps');
  t.equal(pipelineOfRun('nonsense'), '');
});
