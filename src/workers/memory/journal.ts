import type { Digest } from '../../core/lib/digest.ts';
import type { BundleState } from '../queue/bundle-retention.ts';
import type { PublishJob, Trigger } from '../queue/job.ts';
import type { Pause } from '../queue/job-queue.ts';
import type { RunRecord } from '../queue/run-record.ts';

/** Everything another process needs to know to continue a run, as plain data. */
export interface StoredRun {
  job: PublishJob;
  bundle: BundleState;
  /** The run that repeats this one, or null if it has not been rerun. */
  rerunAs: string | null;
  record: RunRecord;
  /**
   * The scope and content digest of its Idempotency-Key, or null if there is no key. Deleted along with the
   * run.
   */
  readonly key: { scope: string; contentDigest: Digest } | null;
  /** The run's position in its pipeline's queue at the time it was accepted. */
  readonly position: number;
  /** The number of processes that have started the current attempt without recording how it ended. */
  begun: number;
  /**
   * The time at which the run first started (RFC 3339). If that was lost, it is the earliest time at which
   * the run could have started. null if the run has not started.
   */
  begunAt: string | null;
  /** The ids of the run's events that have already been passed on to the notifiers. */
  reported: string[];
}

/**
 * Stores state that has to survive a restart. Every change is one call, and calls are processed in order.
 * Only `saveAccepted` reports when it is done, since that is the only change clients rely on. If the process
 * dies before the end of a run was written, the run is repeated, which does not change anything at its
 * destinations.
 */
export interface Journal {
  /** True if unfinished runs will be continued by the next process. */
  readonly isDurable: boolean;
  /** The runs stored by earlier processes, in the order in which they were accepted. */
  readonly runs: readonly StoredRun[];
  /** The pipelines that were paused when the previous process ended. */
  readonly pauses: ReadonlyMap<string, Pause>;
  /**
   * Resolves once the run and its staged bundle are on disk. Throws `insufficient_storage` or
   * `queue_unavailable`, in which case the run is not accepted. Calls to `saveChange` during the same turn
   * are written in the same transaction. Returns null if this journal does not store anything.
   */
  saveAccepted(run: StoredRun): Promise<void> | null;
  /**
   * Called when a run starts, finishes, goes back to the queue, is rerun, reports an event, or loses its
   * bundle.
   */
  saveChange(run: StoredRun): void;
  /** Called when the run's retention period is over, or when it ended up not being accepted. */
  deleteRun(run: StoredRun): void;
  /**
   * Resolves once everything up to this point has been written to disk. Never rejects. Returns null if this
   * journal does not store anything.
   */
  flushed(): Promise<void> | null;
  /** The last trigger of each kind and pipeline, as decided by earlier processes. */
  readonly triggers: readonly { pipelineId: string; trigger: Trigger }[];
  /** Stores a trigger as the last one of its kind. */
  saveTrigger(pipelineId: string, trigger: Trigger): void;
  /** Stores that a pipeline was paused, or that it was resumed if `pause` is null. */
  savePause(pipelineId: string, pause: Pause | null): void;
}

/** The journal of a queue that does not survive a restart. It stores nothing. */
export const noJournal: Journal = {
  isDurable: false,
  runs: [],
  pauses: new Map(),
  triggers: [],
  saveAccepted: () => null,
  saveChange: () => undefined,
  deleteRun: () => undefined,
  flushed: () => null,
  saveTrigger: () => undefined,
  savePause: () => undefined,
};
