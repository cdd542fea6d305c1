import type { Config } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';

/**
 * The maximum of uploads and runs of a pipeline that are received or wait, as configured now; null if
 * `queue_size` alone bounds them. A share of `queue_size` is rounded down; it is 1 at least. By default a
 * pipeline leaves a quarter of `queue_size` to the others, if there are others.
 */
export function maxWaitingOf(settings: Current<Config>): (pipelineId: string) => number | null {
  return (pipelineId) => {
    const { pipelines, server } = settings.get();
    const limit = pipelines.find(({ id }) => id === pipelineId)?.maxWaiting ?? null;
    const { queueSize } = server.http;
    if (limit === null) return pipelines.length > 1 ? queueSize - Math.floor(queueSize / 4) : null;
    const count = 'count' in limit ? limit.count : Math.floor((queueSize * limit.percent) / 100);
    return Math.max(1, count);
  };
}
