import type { Progress, RunResult } from '../core/publish/result.ts';

/** What a worker needs to publish one staged bundle. Plain data: it crosses threads and, in BullMQ mode, hosts. */
export interface PublishJob {
  runId: string;
  pipelineId: string;
  /** The staged bundle's directory, absolute; in BullMQ mode the key of the staged archive. */
  staged: string;
  /** Relative path under which `preserve_relative` publishes it. */
  bundlePath: string;
}

export type JobProgress = Progress;

/** A publication's outcome is data even when destinations failed; only a worker that broke throws. */
export interface JobResult {
  run: RunResult;
}
