import type { Revision } from '../../core/bundle/revision.ts';
import type { Digest } from '../../core/lib/digest.ts';
import type { Progress, RunResult } from '../../core/publish/results/result.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * What a worker needs to publish. Plain data: it crosses threads and, in BullMQ mode, hosts. `staged`
 * distinguishes the two kinds.
 */
export type PublishJob = StagedJob | SourceJob;

/**
 * Its context is that of the span that the run belongs to, by which its trace goes on over queue, hosts and
 * threads.
 */
interface Common extends TraceContext {
  /**
   * When, at the earliest, a process began the run that did not live to see its end, RFC 3339: what was
   * committed since then is told to the notifiers as this run's.
   */
  begunAt?: string;
  /** The channel that is published to; without it, what is current. */
  channel?: string;
  /** The revision of the uploaded bundle, if its producer states one. */
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
  /** Of what is staged. */
  bytes?: number;
}

export interface StagedArchive {
  /** Its name in shared staging. */
  name: string;
  /** Bytes. */
  size: number;
  digest: Digest;
}

/** What starts a run of a pipeline that has a source of its own, without anybody asking. Plain data. */
export type Trigger =
  | {
      kind: 'schedule';
      /** RFC 3339 in UTC, to the millisecond: ticks compare as texts. */
      tick: string;
      /** Names the schedule, so that the ticks of another one are not taken for missed ones. */
      schedule: string;
    }
  | {
      kind: 'watch';
      /** What the source looked like, as a digest. */
      state: string;
    };

/** The bundles that the pipeline's own source holds when the run begins. */
export interface SourceJob extends Common {
  runId: string;
  pipelineId: string;
  /** The run that this one repeats. */
  rerunOf?: string;
  staged: null;
  /** What started it; absent if somebody asked for it. */
  trigger?: Trigger;
}

export type JobProgress = Progress;

/** The outcome of a publication, also if destinations failed; only a worker that broke throws. */
export interface JobResult {
  run: RunResult;
}
