import type { Digest } from '../core/digest.ts';
import type { Progress, RunResult } from '../core/publish/result.ts';

/**
 * What a worker needs to publish. Plain data: it crosses threads and, in BullMQ mode, hosts. `staged` tells
 * the two kinds apart.
 */
export type PublishJob = StagedJob | SourceJob;

/** One bundle that was uploaded. */
export interface StagedJob {
  runId: string;
  pipelineId: string;
  /**
   * The staged bundle's directory, absolute. Where there is an `archive`: the empty directory that it is to
   * be brought to.
   */
  staged: string;
  /** In BullMQ mode: the bundle as it lies in shared staging. */
  archive?: StagedArchive;
  /** Relative path under which `preserve_relative` publishes it. */
  bundlePath: string;
}

export interface StagedArchive {
  /** Its name in shared staging. */
  name: string;
  size: number;
  digest: Digest;
}

/** Whatever the pipeline's own source holds when the run begins. */
export interface SourceJob {
  runId: string;
  pipelineId: string;
  staged: null;
}

export type JobProgress = Progress;

/** A publication's outcome is data even when destinations failed; only a worker that broke throws. */
export interface JobResult {
  run: RunResult;
}
