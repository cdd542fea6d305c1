import type { Config } from '../core/config/config.ts';
import type { Current } from '../core/current.ts';

/**
 * How many uploads and runs of a pipeline may be received or wait at once, as configured now; null if
 * `queue_size` alone bounds them. A share of `queue_size` is rounded down; it is 1 at least.
 */
export function maxWaitingOf(settings: Current<Config>): (pipelineId: string) => number | null {
  return (pipelineId) => {
    const { pipelines, server } = settings.get();
    const limit = pipelines.find(({ id }) => id === pipelineId)?.maxWaiting ?? null;
    if (limit === null) return null;
    const { queueSize } = server.http;
    const count = 'count' in limit ? limit.count : Math.floor((queueSize * limit.percent) / 100);
    return Math.max(1, count);
  };
}
