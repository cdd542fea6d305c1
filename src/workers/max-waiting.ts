import type { Config } from '../core/config/config.ts';

/**
 * How many uploads and runs of a pipeline may be received or wait at once; null if `queue_size` alone bounds
 * them. A share of `queue_size` is rounded down; it is 1 at least. Pure.
 */
export function maxWaitingOf({ pipelines, server }: Config): (pipelineId: string) => number | null {
  const limits = new Map(pipelines.map(({ id, maxWaiting }) => [id, maxWaiting]));
  return (pipelineId) => {
    const limit = limits.get(pipelineId) ?? null;
    if (limit === null) return null;
    const { queueSize } = server.http;
    const count = 'count' in limit ? limit.count : Math.floor((queueSize * limit.percent) / 100);
    return Math.max(1, count);
  };
}
