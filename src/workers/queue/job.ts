import type { Revision } from '../../core/bundle/source-bundle.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { Progress, RunResult } from '../../core/publish/results/result.ts';
import type { PublishedBy } from '../../core/publishers/published-by.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * A worker's input. It is plain data because it crosses threads and, in BullMQ mode, hosts. `staged`
 * distinguishes the two kinds.
 */
export type PublishJob = StagedJob | SourceJob;

/** The request that a run comes from: its span and its caller. Both are stored in the job. */
export interface RunOrigin extends TraceContext {
  /** The token's id. Absent if there was no request. */
  tokenId?: string;
  /** The trusted publisher that uploaded the bundle or started the run. */
  publishedBy?: PublishedBy;
}

/** The trace context is the run's span. It continues the trace across the queue, hosts and threads. */
interface Common extends RunOrigin {
  /**
   * Earliest time at which a process that died started the run, RFC 3339. Notifiers receive changes committed
   * since then as changes of this run.
   */
  begunAt?: string;
  /** The channel to publish to. If absent, the run publishes to the current release. */
  channel?: string;
  /** The bundle's revision, if its producer provides one. */
  revision?: Revision;
}

/** A single uploaded bundle. */
export interface StagedJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  /**
   * Absolute path of the staged bundle's directory. With `archive`, it is an empty directory for extraction.
   */
  staged: string;
  /** The bundle in shared staging. Present only in BullMQ mode. */
  archive?: StagedArchive;
  /** Relative path under which `preserve_relative` publishes it. */
  bundlePath: string;
  /** Size of the staged bundle in bytes. */
  bytes?: number;
  /**
   * Digest of the description of the bundle in `staged`, which makes any later change detectable. Absent in
   * jobs from earlier versions. The bundle in `archive` has its own digest.
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

/** Starts a run of a pipeline that has a source, without a request. Plain data. */
export type Trigger =
  | {
      kind: 'schedule';
      /** RFC 3339 in UTC with milliseconds, so that ticks compare as text. */
      tick: string;
      /** Identifies the schedule, so that ticks of an earlier schedule do not count as missed. */
      schedule: string;
    }
  | {
      kind: 'watch';
      /** Digest of the source's state. */
      state: string;
    };

/** A job that publishes the bundles found in the pipeline's source when the run starts. */
export interface SourceJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  staged: null;
  /** The trigger. Absent if a request started the run. */
  trigger?: Trigger;
}

export type JobProgress = Progress;

/** The outcome of a publication, even if some destinations failed. Only a broken worker throws instead. */
export interface JobResult {
  run: RunResult;
}
