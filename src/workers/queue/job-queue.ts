import type { Digest } from '../../core/lib/digest.ts';
import type { JobProgress, JobResult, PublishJob, RunOrigin } from './job.ts';
import type { RunWatch } from './run-changes.ts';
import type { RunFilter, RunPage } from './run-filter.ts';
import type { RunObserver } from './run-observer.ts';
import type { DeliveryNote, RunRecord } from './run-record.ts';
import type { Triggers } from './trigger.ts';

/**
 * Queues accepted uploads until it is their turn, and keeps a record of every run. Callers should only depend
 * on the part of this interface that they need. There are three implementations: a single process without a
 * journal, a single process with one, and Redis. All of them pass the same contract tests
 * (`test/contract/queue.ts`).
 *
 * Before the API reads the first byte of an upload, it reserves a slot with `reserve`. It then stages and
 * validates the upload, and calls either `accept` or `release`. `accept` creates a run and its record. The
 * run's status goes from accepted to queued, running, and finally succeeded or failed. The queue starts a job
 * as soon as a worker is free and the pipeline has no other job running. Within a pipeline, jobs start in the
 * order in which they were accepted.
 *
 * If a run fails for a temporary reason, it goes back to the queue and waits for its next attempt (see
 * `run-retry.ts`). If a newer run that publishes to the same place is accepted in the meantime, it ends as
 * `superseded` instead.
 *
 * While the server behind the queue is unreachable, every call throws `queue_unavailable`, except for
 * `untilFinished`, `watch`, `drain`, and `close`. If there are several servers, this is true for calls about
 * a pipeline or run on an unreachable server. Calls about all pipelines simply leave out that server's
 * pipelines. While the queue's disk cannot store anything, `accept` throws `queue_unavailable` or
 * `insufficient_storage`.
 */
export interface JobQueue
  extends RunAdmission, RunReader, RunFollower, PipelineSteering, RunSteering, DeliveryNotes {
  /** Starts running jobs with `process`, and reports what happens to `observer`. */
  start(process: JobProcessor, observer?: RunObserver): Promise<void>;

  /** From now on, `reserve` throws `shutting_down`. Runs that were already accepted still run. */
  drain(): void;

  /**
   * Shuts the queue down. It stops accepting uploads, waits up to `timeoutMs` milliseconds for this process's
   * jobs, aborts the rest, and releases all resources. Resolves with the ids of the runs that were
   * interrupted or are lost with this process. An in-memory queue loses every run that is still waiting after
   * the timeout. With a journal or Redis, nothing is lost, because the next process or another host continues
   * the runs. If it is called again, returns the result of the first call.
   */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

/** The ways in which a run can be accepted: as an upload, as a rerun, or started by a trigger. */
export interface RunAdmission {
  /**
   * Reserves an upload slot. If the request's key was already used, nothing will be queued, so no slot is
   * needed unless the run is to be rerun. Throws `queue_full` or `pipeline_full`, both with a retry time, or
   * `shutting_down`. Throws `idempotency_in_progress` if another upload with the same key is still in
   * progress.
   */
  reserve(request: AdmissionRequest): Promise<Admission>;

  /**
   * Queues a new run that repeats a finished one. The new run takes over the staged bundle, or, if the
   * pipeline has a source, reads that source again. A run can only be repeated once. The second time, this
   * returns the record of the run that already repeated it, with `replayed: true`. The new run needs a slot.
   * `origin` is the request that asked for it. Throws `run_not_found`, `run_not_finished`, `queue_full`,
   * `pipeline_full`, or `shutting_down`. Throws `bundle_gone` if the bundle is no longer kept or the run was
   * cancelled.
   */
  rerun(runId: string, newRunId: string, origin?: RunOrigin): Promise<AcceptedRun>;

  /** Starts runs when a schedule ticks or a source has changed. */
  readonly triggers: Triggers;
}

/** Reads the records of runs and the state of their pipelines. */
export interface RunReader {
  /** Returns a copy of the run's record, or undefined if the run is unknown or has expired. */
  find(runId: string): Promise<RunRecord | undefined>;

  /**
   * Returns copies of the run records that are still kept for these pipelines, newest first. The cost depends
   * on how many runs have to be looked at to fill the page, including those that do not match the query, up
   * to 2,000. Throws `run_not_found` if `before` is not one of these runs.
   */
  list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage>;

  /**
   * Returns the state of each of these pipelines, in the same order. The cost does not depend on the number
   * of runs.
   */
  overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]>;

  /**
   * Returns when each pipeline's first queued run started waiting, in the order of the pipelines. Times are
   * RFC 3339 in UTC, or null if no run is waiting.
   */
  waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]>;

  depth(): Promise<QueueDepth>;

  /** Returns the number and total size of the bundles kept for finished runs, across all hosts. */
  bundleUsage(): Promise<BundleUsage>;
}

/** Follows runs as they change. */
export interface RunFollower {
  /**
   * Resolves when the run has finished or is unknown, when `signal` aborts, or when the queue is closed.
   * Never rejects, and keeps waiting even if the server behind the queue is unreachable. It costs the same no
   * matter how many callers wait for the same run.
   */
  untilFinished(runId: string, signal: AbortSignal): Promise<void>;

  /**
   * Follows the records of all runs, on all hosts. `onChange` is called shortly after something has changed,
   * and must neither throw nor block. Changes to a run's status, stage, or destinations are reported within
   * 200 ms, progress within a stage only a few times per second. Watchers see the latest record, and may miss
   * states in between. If the server behind the queue becomes unreachable, changes arrive late but are not
   * lost. `watch` itself never throws, but the methods of `RunWatch` may reject with `queue_unavailable`.
   */
  watch(onChange: () => void): RunWatch;
}

/** Pauses and resumes pipelines. */
export interface PipelineSteering {
  /**
   * Stops the pipeline from starting runs on any host. Runs in progress continue, and new ones are still
   * accepted. If the pipeline is already paused, only the reason changes. A single-process queue without a
   * journal forgets the pause when the process ends.
   */
  pause(pipelineId: string, reason: string | null): Promise<Pause>;

  /** Resumes the pipeline. Resolves with false if it was not paused. */
  resume(pipelineId: string): Promise<boolean>;

  /** Returns all paused pipelines, even if they are not in this host's configuration. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
}

/** Cancels individual runs, or starts their next attempts early. */
interface RunSteering {
  /**
   * Cancels a run on any host. A waiting run never starts, and ends as `failed` with the error `cancelled`. A
   * run in progress is aborted as if the daemon were shutting down, and ends in the same way unless it
   * succeeds first. If that leaves a partial publication behind, the bundle's next run completes it and
   * does not need `force`. The staged bundle is deleted. Idempotent. Throws `run_not_found`, or
   * `run_finished` if the run has already ended in another way.
   */
  cancel(runId: string): Promise<Cancellation>;

  /**
   * Makes a run's next attempt due, so that it starts as soon as a worker is free. Does nothing if the run is
   * queued or running anyway. Resolves with the run's record. Throws `run_not_found`, or `run_finished` if
   * the run has ended.
   */
  retryNow(runId: string): Promise<RunRecord>;
}

/** Adds the deliveries of events to the records of their runs. */
export interface DeliveryNotes {
  /** Adds the state of a delivery to the record of the event's run. Does nothing if the run is unknown. */
  noteDelivery(runId: string, note: DeliveryNote): Promise<void>;
}

export interface Pause {
  /** RFC 3339 in UTC. */
  since: string;
  reason: string | null;
}

export interface Cancellation {
  /**
   * `forgotten`: the run was still waiting. `stopping`: the run is in progress and will end soon. `repeated`:
   * the run had already been cancelled.
   */
  outcome: 'forgotten' | 'stopping' | 'repeated';
  record: RunRecord;
}

export interface RunQuery extends RunFilter {
  /** The maximum number of runs on the page. At least 1. */
  limit: number;
  /** Only return runs that were accepted before this one. */
  before?: string | null;
}

export interface PipelineOverview {
  /** The number of runs in the queue. */
  waiting: number;
  /** The number of runs waiting for their next attempt. */
  retrying: number;
  /** The id of the run in progress, or null. */
  running: string | null;
  /** A copy of the newest run's record, or null if no record is kept. */
  lastRun: RunRecord | null;
  /** The last successful run, or null if none is known. It remains known even if its record has expired. */
  lastSuccess: LastSuccess | null;
}

export interface LastSuccess {
  run_id: string;
  /** RFC 3339 in UTC. */
  finished_at: string;
}

/** The current numbers across all hosts. */
export interface QueueDepth {
  /** Slots occupied by uploads in progress. */
  reserved: number;
  /**
   * Runs in the queue, not counting those that wait for their next attempt. `queue_size` limits `reserved +
   * queued`.
   */
  queued: number;
  /** Runs in progress. */
  running: number;
}

/** The staged bundles that are kept so that finished runs can be rerun. They do not count as waiting. */
export interface BundleUsage {
  bundles: number;
  bytes: number;
}

export interface AdmissionRequest {
  pipelineId: string;
  /**
   * Makes the request safe to repeat. The key is only valid for this caller and pipeline. `caller` is the id
   * of an upload token, or a name that cannot be one, such as `schedule:nightly`.
   */
  idempotency?: Idempotency;
}

export interface Idempotency {
  caller: string;
  key: string;
  /** If the run with this key has failed, start a new one instead of returning its record. */
  rerunFailed?: boolean;
}

export interface AcceptedRun {
  record: RunRecord;
  /** True if the run was already accepted by an earlier request with the same key. */
  replayed: boolean;
  /**
   * The run's position in the pipeline's queue when it was accepted. 1 means that no other run was waiting.
   * null if the run was accepted by an earlier version, which did not record this.
   */
  position: number | null;
}

/** The right to queue one upload. It must be ended by calling either `accept` or `release`, exactly once. */
export interface Admission {
  /**
   * Turns the slot into a queued run. If the key was already used with the same content, nothing is queued.
   * In that case, returns the first run's record with `replayed: true`, and the caller should discard its
   * staged files.
   *
   * With `rerunFailed`, a key that belongs to a failed run moves to the new run. If several such requests
   * arrive at once, one of them gets a new run and the others get its record.
   *
   * Throws `idempotency_conflict` if the key was used with different content, `shutting_down` if the queue
   * has been closed, and `internal_error` if this admission has already ended. An admission without a slot
   * may suddenly need one, because the first run failed or was deleted in the meantime. It may then throw
   * `queue_full`, `pipeline_full`, or `idempotency_in_progress`.
   */
  accept(job: PublishJob, contentDigest: Digest): Promise<AcceptedRun>;
  /** Releases the slot and its key. Does nothing if this admission has already ended. */
  release(): Promise<void>;
}

/**
 * Runs one job. Resolves even if some destinations failed. Rejects if the worker crashed or `signal` aborted
 * the run.
 */
export type JobProcessor = (
  job: PublishJob,
  context: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
) => Promise<JobResult>;
