import type { Digest } from '../../core/lib/digest.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';
import type { BundleState } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';

/** Everything about a run that another process needs to continue it. Plain data. */
export interface StoredRun {
  job: PublishJob;
  bundle: BundleState;
  /** The run that repeats it; null if it was not rerun. */
  rerunAs: string | null;
  record: RunRecord;
  /** The Idempotency-Key's scope and content, forgotten with the run; null if it has none. */
  readonly key: { scope: string; contentDigest: Digest } | null;
  /** Its position in the pipeline's queue at acceptance. */
  readonly position: number;
  /** How many processes have begun the current try without recording its end. */
  begun: number;
  /**
   * When it first began, RFC 3339; the earliest possible time if the exact one was lost. null if it has not
   * begun.
   */
  begunAt: string | null;
  /** Ids of the run's events that were reported to the notifiers. */
  reported: string[];
}

/**
 * Stores the state that outlives the process, one call per transition, in order. Only `accepted` reports
 * completion, because clients rely on it alone. A run whose end was not written is published again, which
 * changes nothing.
 */
export interface Journal {
  /** Whether the next process continues runs that are unfinished when this one ends. */
  readonly outlives: boolean;
  /** The runs of earlier processes, in the order of acceptance. */
  readonly runs: readonly StoredRun[];
  /** The pipelines that earlier processes left paused. */
  readonly pauses: ReadonlyMap<string, Pause>;
  /**
   * Resolves once the run and its staged bundle are durable, or null if nothing is written. Rejects with
   * `insufficient_storage` or `queue_unavailable`: the run is then not accepted. Calls of `changed` in the
   * same turn are written in the same step.
   */
  accepted(run: StoredRun): Promise<void> | null;
  /**
   * Returns the run began, ended, was returned to the queue, was rerun, reported an event, or lost its
   * bundle.
   */
  changed(run: StoredRun): void;
  /** Returns the run's retention has ended, or it was not accepted in the end. */
  forgotten(run: StoredRun): void;
  /**
   * Resolves once everything written so far is durable, never earlier. Never rejects. null if nothing is
   * written.
   */
  settled(): Promise<void> | null;
  /** The last triggers decided by earlier processes, per kind and pipeline. */
  readonly triggers: readonly { pipelineId: string; trigger: Trigger }[];
  /** Stores the last decided trigger of its kind. */
  triggered(pipelineId: string, trigger: Trigger): void;
  /** Stores a pause, or null if the pipeline was resumed. */
  paused(pipelineId: string, pause: Pause | null): void;
}

/** For a queue whose runs end with its process. */
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
