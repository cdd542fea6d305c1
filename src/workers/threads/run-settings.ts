import type { Config, PipelineConfig } from '../../core/config/config.ts';
import type { Current } from '../../core/lib/current.ts';
import { retrySettingsOf } from '../queue/run-retry.ts';

/** The configuration to use for new runs. */
export interface RunSettings extends Current<Config> {
  /** Replaces the configuration. Runs that are already in progress keep using the old one. */
  adopt(config: Config): void;
  /**
   * Returns the configuration for a run of this pipeline that starts now. It does not include any other
   * pipelines. If the pipeline has been removed, uses its last settings, since there may be runs that were
   * already accepted. If this process has never heard of the pipeline, the configuration has no pipelines at
   * all.
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

/** Returns the queue's options that are in the configuration. */
export function queueSettings(settings: RunSettings) {
  const { http, rerun: keep } = settings.get().server;
  const { queueSize, maxConcurrency, retentionMs } = http;
  const limits = { maxWaitingOf: maxWaitingOf(settings), retries: retrySettingsOf(settings) };
  return { queueSize, maxConcurrency, retentionMs, keep, ...limits };
}

/**
 * Returns how many uploads and waiting runs a pipeline may currently have, or null if the only limit is
 * `queue_size`. If it is a share of `queue_size`, it is rounded down, but never to less than 1. By default, a
 * pipeline has to leave a quarter of `queue_size` for other pipelines, if there are any.
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
