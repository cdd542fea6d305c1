import { createHash } from 'node:crypto';

/** Which of several Redis has which pipeline. All pure; a shard is its index. */
export interface ShardMap {
  readonly names: readonly string[];
  /** Where the runs of the pipeline are accepted. */
  readonly ownerOf: (pipelineId: string) => number;
}

/**
 * By rendezvous hashing: each pipeline lives on the shard whose name, hashed together with the pipeline's id,
 * gives the largest value. So all hosts agree without asking, the order of the names does not matter, and one
 * more name takes over only the pipelines that it wins.
 *
 * @param names As they are configured: those of the variables with the URLs, which may change.
 */
export function shardMap(names: readonly string[]): ShardMap {
  const known = new Map<string, number>();
  const find = (pipelineId: string): number => {
    const weights = names.map((name) => weightOf(name, pipelineId));
    return weights.reduce((best, weight, index) => (weight > (weights[best] ?? '') ? index : best), 0);
  };
  return {
    names,
    ownerOf: (pipelineId) => {
      let owner = known.get(pipelineId);
      if (owner === undefined) known.set(pipelineId, (owner = find(pipelineId)));
      return owner;
    },
  };
}

/** As hexadecimal digits, which sort as their number does. */
function weightOf(name: string, pipelineId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([name, pipelineId]))
    .digest('hex');
}

/** The pipeline that is part of a run's id: what stands before its time and suffix. Pure. */
export function pipelineOfRun(runId: string): string {
  const [, pipelineId] = /^(.+)\.\d{8}T\d{6}Z\.[0-9a-z]+$/.exec(runId) ?? [];
  return pipelineId ?? runId.slice(0, Math.max(0, runId.lastIndexOf('.')));
}
