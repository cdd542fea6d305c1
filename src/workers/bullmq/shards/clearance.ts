import type { Shards } from './shards.ts';

/**
 * Whether runs of a pipeline may begin where it lives now: not before the last one has ended wherever it
 * lived before, so that the order of acceptance holds, and one at a time. Nothing of it is accepted there any
 * more, so that what was seen once holds for good, and is noted for all hosts and starts: a Redis that is
 * away later stops no other.
 */
export function clearance(shards: () => Shards): (shard: number, pipelineId: string) => Promise<boolean> {
  const cleared = new Set<string>();
  return async (shard, pipelineId) => {
    const { map, at, up } = shards();
    if (cleared.has(pipelineId) || map.ownerOf(pipelineId) !== shard) return true;
    const others = [...map.names.keys()].filter((other) => other !== shard);
    const noted = new Set(await at(shard).marks.of(pipelineId));
    const left = others.filter((other) => !noted.has(map.names[other] ?? ''));
    const answering = new Set(up());
    for (const other of left) {
      if (!answering.has(other)) return false;
      const [found] = await at(other).overview([pipelineId]);
      if (found === undefined || found.waiting + found.retrying > 0 || found.running !== null) return false;
    }
    if (left.length > 0)
      await at(shard).marks.set(
        pipelineId,
        others.map((other) => map.names[other] ?? ''),
      );
    cleared.add(pipelineId);
    return true;
  };
}
