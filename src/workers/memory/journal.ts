import type { Digest } from '../../core/lib/digest.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';
import type { BundleState } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';

/** Everything that another process needs to continue a run. Plain data. */
export interface StoredRun {
  job: PublishJob;
  bundle: BundleState;
  /** The run that repeats this one, or null if it was not rerun. */
  rerunAs: string | null;
  record: RunRecord;
  /** The Idempotency-Key's scope and content, which are forgotten with the run. null if it has no key. */
  readonly key: { scope: string; contentDigest: Digest } | null;
  /** Its position in the pipeline's queue at acceptance. */
  readonly position: number;
  /** The number of processes that have started the current attempt without recording its end. */
  begun: number;
  /**
   * When the run first started (RFC 3339), or the earliest possible time if the exact one was lost. null if
   * it has not started.
   */
  begunAt: string | null;
  /** Ids of the run's events that were already reported to the notifiers. */
  reported: string[];
}

/**
 * Stores the state that outlives the process, with one call per transition, in order. Only `accepted` reports
 * completion, because clients rely on nothing else. If the end of a run was not written, the run is published
 * again, which changes nothing.
 */
export interface Journal {
  /** True if the next process continues runs that are unfinished when this one ends. */
  readonly outlives: boolean;
  /** Runs of earlier processes, in order of acceptance. */
  readonly runs: readonly StoredRun[];
  /** The pipelines that earlier processes left paused. */
  readonly pauses: ReadonlyMap<string, Pause>;
  /**
   * Resolves once the run and its staged bundle are durable. Returns null if nothing is written. Throws
   * `insufficient_storage` or `queue_unavailable`, in which case the run is not accepted. Calls to `changed`
   * in the same turn are written in the same step.
   */
  accepted(run: StoredRun): Promise<void> | null;
  /**
   * Called when the run starts, ends, returns to the queue, is rerun, reports an event, or loses its bundle.
   */
  changed(run: StoredRun): void;
  /** Called when the run's retention period has ended, or when it was not accepted after all. */
  forgotten(run: StoredRun): void;
  /**
   * Resolves once everything written so far is durable, and never earlier. Never rejects. Returns null if
   * nothing is written.
   */
  settled(): Promise<void> | null;
  /** The last triggers that earlier processes decided, per kind and pipeline. */
  readonly triggers: readonly { pipelineId: string; trigger: Trigger }[];
  /** Stores the last decided trigger of this kind. */
  triggered(pipelineId: string, trigger: Trigger): void;
  /** Stores a pause. A null pause means that the pipeline was resumed. */
  paused(pipelineId: string, pause: Pause | null): void;
}

/** The journal of a queue whose runs end with its process. */
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
