import type { Revision } from '../../core/bundle/source-bundle.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { Progress, RunResult } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * A worker's input. Plain data: it crosses threads and, in BullMQ mode, hosts. `staged` distinguishes the two
 * kinds.
 */
export type PublishJob = StagedJob | SourceJob;

/** The request that a run comes from: its span and its caller. They are stored in the job. */
export interface RunOrigin extends TraceContext {
  /** The id of the token; absent without a request. */
  tokenId?: string;
  /** The trusted publisher that uploaded the bundle or started the run. */
  publishedBy?: PublishedBy;
}

/** The trace context is the run's span. It continues the trace over queue, hosts and threads. */
interface Common extends RunOrigin {
  /**
   * Earliest time at which a process that died began the run, RFC 3339. Notifiers receive changes committed
   * since then as changes of this run.
   */
  begunAt?: string;
  /** The channel to publish to; absent: the current release. */
  channel?: string;
  /** The bundle's revision, if its producer states one. */
  revision?: Revision;
}

/** One bundle that was uploaded. */
export interface StagedJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  /** The staged bundle's directory, absolute. With `archive`: an empty extraction directory. */
  staged: string;
  /** The bundle in shared staging; only in BullMQ mode. */
  archive?: StagedArchive;
  /** Relative path under which `preserve_relative` publishes it. */
  bundlePath: string;
  /** Size of the staged bundle. */
  bytes?: number;
  /**
   * Digest of the description of the bundle in `staged`, with which every later change is detected. Absent in
   * jobs of earlier versions. The bundle in `archive` has its own digest.
   */
  description?: Digest;
}

export interface StagedArchive {
  /** Its name in shared staging. */
  name: string;
  /** Bytes. */
  size: number;
  digest: Digest;
}

/** A trigger starts a run of a pipeline that has a source, without a request. Plain data. */
export type Trigger =
  | {
      kind: 'schedule';
      /** RFC 3339 in UTC with milliseconds, so that ticks compare as text. */
      tick: string;
      /** Identifies the schedule, so that ticks of a former schedule do not count as missed. */
      schedule: string;
    }
  | {
      kind: 'watch';
      /** Digest of the source's state. */
      state: string;
    };

/** A job that publishes the bundles in the pipeline's source when the run begins. */
export interface SourceJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  staged: null;
  /** The trigger; absent if a request started the run. */
  trigger?: Trigger;
}

export type JobProgress = Progress;

/** The outcome of a publication, even if destinations failed. Only a broken worker throws. */
export interface JobResult {
  run: RunResult;
}
