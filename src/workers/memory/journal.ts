import type { Digest } from '../../core/lib/digest.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';
import type { BundleState } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';

/** All of a run that must be known to take it up in another process. Plain data. */
export interface KeptRun {
  job: PublishJob;
  bundle: BundleState;
  /** The run that repeats it; null if none does. */
  rerunAs: string | null;
  record: RunRecord;
  /** What the Idempotency-Key stands for, which is forgotten with the run; null if it has none. */
  readonly key: { scope: string; contentDigest: Digest } | null;
  /** Its place in the line of its pipeline, when it was accepted. */
  readonly position: number;
  /** How many processes began it and did not live to see its end. */
  begun: number;
  /**
   * When it was begun for the first time, RFC 3339, or at the earliest, if that was not written; null until
   * then.
   */
  begunAt: string | null;
  /** What of it has been told to the notifiers, as the journal's caller names it. */
  told: string[];
}

/**
 * Where the queue writes what has to outlive its process, one call for each transition. Calls are written in
 * their order; only `accepted` says when it is done, since nobody is promised anything by the others: a run
 * whose end was not written is published again, which changes nothing.
 */
export interface Journal {
  /** Whether a run that is not finished when the process ends is taken up by the next one. */
  readonly outlives: boolean;
  /** The runs that earlier processes left, in the order of acceptance. */
  readonly runs: readonly KeptRun[];
  /** The pipelines that earlier processes left paused. */
  readonly pauses: ReadonlyMap<string, Pause>;
  /**
   * Resolves once run and staged bundle are durable; null if nothing is written, which is done at once.
   * Rejects with `insufficient_storage` or `queue_unavailable`: the run is not accepted then. What `changed`
   * was told in the same turn is written in the same step.
   */
  accepted(run: KeptRun): Promise<void> | null;
  /** The run began, ended, was given back, was run again, told something, or lost its bundle. */
  changed(run: KeptRun): void;
  /** The retention of the run is over, or it was not accepted after all. */
  forgotten(run: KeptRun): void;
  /**
   * Resolves once all that was told until now is durable, and not before that; never rejects. Null if nothing
   * is written.
   */
  settled(): Promise<void> | null;
  /** The last triggers that earlier processes decided, of each kind, by pipeline. */
  readonly triggers: readonly { pipelineId: string; trigger: Trigger }[];
  /** The trigger is the last of its kind that was decided. */
  triggered(pipelineId: string, trigger: Trigger): void;
  /** Null if it is resumed. */
  paused(pipelineId: string, pause: Pause | null): void;
}

/** Of a queue whose runs end with its process. */
export const noJournal: Journal = {
  outlives: false,
  runs: [],
  pauses: new Map(),
  triggers: [],
  accepted: () => null,
  changed: () => undefined,
  forgotten: () => undefined,
  settled: () => null,
  triggered: () => undefined,
  paused: () => undefined,
};
