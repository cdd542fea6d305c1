import type { Trigger } from '../../queue/job.ts';
import { isKnown, type TriggerKind, type TriggerOf, type Triggers } from '../../queue/trigger.ts';
import type { Shards } from './shards.ts';

/**
 * Triggers are decided where their pipelines live. One that lived elsewhere before has its last ticks there,
 * until one was decided where it lives now.
 */
export function shardedTriggers({ at, owner, up, map }: Shards): Triggers {
  const elsewhere = async <K extends TriggerKind>(pipelineId: string, kind: K): Promise<TriggerOf<K>[]> => {
    const home = map.ownerOf(pipelineId);
    const others = up().filter((shard) => shard !== home);
    const found = await Promise.all(others.map((shard) => at(shard).triggers.last(pipelineId, kind)));
    return found.flatMap((one) => one ?? []);
  };
  return {
    last: async (pipelineId, kind) =>
      (await owner(pipelineId).triggers.last(pipelineId, kind)) ??
      (await elsewhere(pipelineId, kind)).toSorted(byTick).at(-1) ??
      null,
    decide: async (job, options) => {
      const { pipelineId, trigger } = job;
      const { triggers } = owner(pipelineId);
      if ((await triggers.last(pipelineId, trigger.kind)) === null) {
        const before = await elsewhere(pipelineId, trigger.kind);
        if (before.some((last) => isKnown(last, trigger, options?.latest))) return { outcome: 'known' };
      }
      return triggers.decide(job, options);
    },
  };
}

function byTick(a: Trigger, b: Trigger): number {
  return a.kind === 'schedule' && b.kind === 'schedule' ? Date.parse(a.tick) - Date.parse(b.tick) : 0;
}
