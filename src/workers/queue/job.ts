import type { Revision } from '../../core/bundle/source-bundle.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { Progress, RunResult } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * The input of a worker. It is plain data because it is passed between threads and, with BullMQ, between
 * hosts. `staged` distinguishes the two kinds.
 */
export type PublishJob = StagedJob | SourceJob;

/** The origin of a run: the trace and the caller of the request. Stored as part of the job. */
export interface RunOrigin extends TraceContext {
  /** The id of the token that was used. Absent if the run was not started by a request. */
  tokenId?: string;
  /** The trusted publisher that uploaded the bundle or started the run. */
  publishedBy?: PublishedBy;
}

/** The trace context is the run's span. It lets the trace continue across the queue, hosts, and threads. */
interface Common extends RunOrigin {
  /**
   * If processes have died while executing this run, the earliest time at which one of them may have started
   * it (RFC 3339). Changes committed since then are reported to the notifiers as changes made by this run.
   */
  begunAt?: string;
  /** The channel to publish to. If absent, the run publishes to the current release. */
  channel?: string;
  /** The bundle's revision, if its producer specified one. */
  revision?: Revision;
}

/** A job that publishes an uploaded bundle. */
export interface StagedJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  /**
   * The absolute path of the directory with the staged bundle. If there is an `archive`, the directory is
   * empty, and the archive is extracted there.
   */
  staged: string;
  /** The bundle in shared staging. Only used with BullMQ. */
  archive?: StagedArchive;
  /** The relative path at which `preserve_relative` publishes the bundle. */
  bundlePath: string;
  /** The size of the staged bundle in bytes. */
  bytes?: number;
  /**
   * A digest of the description of the bundle in `staged`, so that we notice if it is changed later on.
   * Absent in jobs from earlier versions. A bundle in `archive` has its own digest.
   */
  description?: Digest;
}

export interface StagedArchive {
  /** Its name in shared staging. */
  name: string;
  /** Size in bytes. */
  size: number;
  digest: Digest;
}

/** The event that started a run without a request. Only for pipelines that have a source. Plain data. */
export type Trigger =
  | {
      kind: 'schedule';
      /** RFC 3339 in UTC with milliseconds, so that ticks can be compared as text. */
      tick: string;
      /** Identifies the schedule. Ticks of an earlier schedule do not count as missed. */
      schedule: string;
    }
  | {
      kind: 'watch';
      /** A digest of the source's state. */
      state: string;
    };

/** A job that publishes whatever bundles are in the pipeline's source by the time the run starts. */
export interface SourceJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats, if any. */
  rerunOf?: string;
  staged: null;
  /** The trigger that started the run. Absent if it was started by a request. */
  trigger?: Trigger;
}

export type JobProgress = Progress;

/**
 * The result of a publication, even if some destinations failed. Errors are only thrown if the worker
 * crashes.
 */
export interface JobResult {
  run: RunResult;
}
