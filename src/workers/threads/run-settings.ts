import type { Config, PipelineConfig } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import type { KeepLimits } from '../queue/kept-bundles.ts';
import { type RetriesOf, retriesOf } from '../queue/run-retry.ts';

/** The configuration that runs start with. */
export interface RunSettings extends Current<Config> {
  /** Sets the configuration for runs that start after the call. Runs in progress keep theirs. */
  adopt(config: Config): void;
  /**
   * Returns the configuration for a run that starts now, containing only its pipeline. For a removed pipeline
   * it has the last settings, because accepted runs still need them. It has no pipeline if this process never
   * had it configured.
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

/** Returns the settings that every kind of queue has. */
export function queueSettings(settings: RunSettings): {
  queueSize: number;
  maxWaitingOf: (pipelineId: string) => number | null;
  maxConcurrency: number;
  retentionMs: number;
  keep: KeepLimits;
  retries: RetriesOf;
} {
  const { http, rerun: keep } = settings.get().server;
  const { queueSize, maxConcurrency, retentionMs } = http;
  const [maxWaiting, retries] = [maxWaitingOf(settings), retriesOf(settings)];
  return { queueSize, maxWaitingOf: maxWaiting, maxConcurrency, retentionMs, keep, retries };
}

/**
 * Returns the current maximum of a pipeline's uploads in progress and waiting runs, or null if only
 * `queue_size` limits them. A share of `queue_size` is rounded down, but is at least 1. By default, a
 * pipeline leaves a quarter of `queue_size` for other pipelines, if there are any.
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
