import type { Config, PipelineConfig } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';

/** The configuration that runs begin with. */
export interface RunSettings extends Current<Config> {
  /** From now on runs begin with this one; those that run go on with theirs. */
  adopt(config: Config): void;
  /**
   * What a run needs that begins now: the configuration with the run's pipeline alone. A pipeline that is
   * configured no more has the settings that it had last, for the runs that it had accepted; one that never
   * was configured in this process is missing.
   */
  ofPipeline(pipelineId: string): Config;
}

export function runSettings(first: Config): RunSettings {
  let config = first;
  const lastOf = new Map<string, PipelineConfig>();
  const remember = (): void => {
    for (const pipeline of config.pipelines) lastOf.set(pipeline.id, pipeline);
  };
  remember();
  return {
    get: () => config,
    adopt: (next) => {
      config = next;
      remember();
    },
    ofPipeline: (pipelineId) => {
      const pipeline = lastOf.get(pipelineId);
      return { ...config, pipelines: pipeline === undefined ? [] : [pipeline] };
    },
  };
}

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
