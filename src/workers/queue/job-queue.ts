import type { Digest } from '../../core/lib/digest.ts';
import type { JobProgress, JobResult, PublishJob, RunOrigin } from './job.ts';
import type { RunWatch } from './run-changes.ts';
import type { RunFilter, RunPage } from './run-filter.ts';
import type { RunObserver } from './run-observer.ts';
import type { DeliveryNote, RunRecord } from './run-record.ts';
import type { Triggers } from './trigger.ts';

/**
 * Holds accepted uploads until their turn comes, and the record of every run. Each caller uses only the
 * interface that it needs. Three implementations pass one contract suite (`test/contract/queue.ts`): one
 * process, with or without a journal, and Redis.
 *
 * An upload starts when `reserve` takes a slot, before the first byte of the body is read. The API stages and
 * validates the upload, then calls `accept` or `release`. After `accept`, a run record exists. Its states are
 * accepted → queued → running → succeeded | failed. The queue starts a job when a worker is free and no other
 * job of the pipeline is running. Jobs of one pipeline start in order of acceptance.
 *
 * A run that fails for a temporary reason is queued again and waits for its next try (`run-retry.ts`). It
 * ends as `superseded` if a newer run that publishes to the same place is accepted first.
 *
 * While the server behind the queue is unreachable, every call except `untilFinished`, `watch`, `drain` and
 * `close` throws `queue_unavailable`. With several servers, this applies to calls about a pipeline or run on
 * an unreachable server. Calls about all pipelines omit that server's pipelines. `accept` throws
 * `queue_unavailable` or `insufficient_storage` while the queue's disk cannot store anything.
 */
export interface JobQueue
  extends
    RunAdmission,
    RunReader,
    RunFollower,
    PipelineSteering,
    RunSteering,
    DeliveryNotes,
    QueueLifecycle {}

/** Accepts runs: uploads, reruns and triggered runs. */
export interface RunAdmission {
  /**
   * Takes an admission slot. A request whose key was already used queues nothing, so it needs no slot unless
   * its run should be rerun. Throws `queue_full` and `pipeline_full`, each with a retry time, and
   * `shutting_down`. Throws `idempotency_in_progress` if another request is still staging an upload with the
   * same key.
   */
  reserve(request: AdmissionRequest): Promise<Admission>;

  /**
   * Queues a run that repeats an ended one, for the request `origin`. The new run uses the old run's staged
   * bundle, which then belongs to the new run. If the pipeline has a source, the new run reads the source
   * again instead. A run can be repeated only once. A second call returns the new run's record with
   * `replayed: true`. Requires a slot. Throws `run_not_found`, `run_not_finished`, `queue_full`,
   * `pipeline_full` and `shutting_down`. Throws `bundle_gone` if the run was cancelled or its bundle is no
   * longer kept.
   */
  rerun(runId: string, newRunId: string, origin?: RunOrigin): Promise<AcceptedRun>;

  /** Starts runs for schedule ticks and source changes. */
  readonly triggers: Triggers;
}

/** Reads the records of runs, and the state of their pipelines. */
export interface RunReader {
  /** Returns a copy of the run's record, or undefined if the run is unknown or has expired. */
  find(runId: string): Promise<RunRecord | undefined>;

  /**
   * Returns copies of these pipelines' retained run records, newest first. The cost depends on the runs
   * examined, both on the page and filtered out by the query, up to 2,000. Throws `run_not_found` if `before`
   * is not a retained run of these pipelines.
   */
  list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage>;

  /**
   * Returns the state of these pipelines, in the given order. The cost does not depend on the number of runs.
   */
  overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]>;

  /**
   * Returns the time since which each pipeline's first queued run has been waiting, in the order of the
   * pipelines. Times are RFC 3339 in UTC, or null if no run is waiting.
   */
  waitingSince(pipelineIds: readonly string[]): Promise<(string | null)[]>;

  depth(): Promise<QueueDepth>;

  /** Returns totals of the ended runs' kept bundles, across all hosts. */
  kept(): Promise<KeptBundles>;
}

/** Follows runs while they change. */
export interface RunFollower {
  /**
   * Resolves when the run is finished or unknown, when `signal` aborts, or when the queue is closed. Never
   * rejects, but keeps waiting while the server behind the queue is unreachable. Many waits for the same run
   * cost as much as one.
   */
  untilFinished(runId: string, signal: AbortSignal): Promise<void>;

  /**
   * Follows the records of all runs on all hosts. `onChange` is called soon after one or more changes. It
   * must neither throw nor block. Changes to the status, stage or destinations are reported within 200 ms,
   * and progress within a stage a few times per second. Only the newest record is reported; intermediate
   * states may be skipped. While the server behind the queue is unreachable, changes are delayed but not
   * lost. Does not throw, but methods of `RunWatch` may reject with `queue_unavailable`.
   */
  watch(onChange: () => void): RunWatch;
}

/** Pauses pipelines. */
export interface PipelineSteering {
  /**
   * Prevents the pipeline's runs from starting on any host. Runs in progress continue, and new ones are
   * accepted. If the pipeline is already paused, this replaces the reason. Without a journal, a
   * single-process queue loses the pause when the process ends.
   */
  pause(pipelineId: string, reason: string | null): Promise<Pause>;

  /** Resumes the pipeline. Resolves with true if it was paused. */
  resume(pipelineId: string): Promise<boolean>;

  /** Returns all paused pipelines, including ones that are not configured here. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
}

/** Cancels runs and starts their next tries early. */
export interface RunSteering {
  /**
   * Cancels a run on any host. A waiting run never starts, and ends as `failed` with the error `cancelled`. A
   * running one is stopped as in a shutdown and ends the same way, unless it succeeds first. The next run of
   * the bundle completes a partial publication without force. The staged bundle is removed. Idempotent.
   * Throws `run_not_found`, and `run_finished` if the run has already ended in another way.
   */
  cancel(runId: string): Promise<Cancellation>;

  /**
   * Makes a run's next try due, so that it starts once a worker is free. Resolves with the run's record.
   * Leaves queued and running runs unchanged. Throws `run_not_found`, and `run_finished` if the run has
   * ended.
   */
  retryNow(runId: string): Promise<RunRecord>;
}

/** Adds event deliveries to the records of their runs. */
export interface DeliveryNotes {
  /** Adds the state of an event's delivery to the run's record. Does nothing if the run is unknown. */
  noteDelivery(runId: string, note: DeliveryNote): Promise<void>;
}

/** Starts and stops the queue in this process. */
export interface QueueLifecycle {
  /** Starts running jobs with `process` and reporting them to `observer`. */
  start(process: JobProcessor, observer?: RunObserver): Promise<void>;

  /** After this call, `reserve` throws `shutting_down`. Accepted runs still run. */
  drain(): void;

  /**
   * Drains, waits at most `timeoutMs` milliseconds for the jobs of this process, aborts the rest, and
   * releases all resources. Resolves with the ids of interrupted runs, and of runs that are lost with this
   * process. In memory, all runs still waiting after the timeout are lost. With a journal or Redis, none are
   * lost, because the next process or another host takes them. A second call returns the result of the first.
   */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface Pause {
  /** RFC 3339 in UTC. */
  since: string;
  reason: string | null;
}

export interface Cancellation {
  /**
   * `forgotten`: the run was waiting. `stopping`: the run is in progress and will end soon. `repeated`: the
   * run was already cancelled.
   */
  outcome: 'forgotten' | 'stopping' | 'repeated';
  record: RunRecord;
}

export interface RunQuery extends RunFilter {
  /** Maximum number of runs on the page, at least 1. */
  limit: number;
  /** Selects only runs that were accepted before this one. */
  before?: string | null;
}

export interface PipelineOverview {
  /** Accepted runs in the queue. */
  waiting: number;
  /** Runs that are waiting for their next try. */
  retrying: number;
  /** Id of the running run, or null if there is none. */
  running: string | null;
  /** Copy of the newest run's record, or null if none is retained. */
  lastRun: RunRecord | null;
  /** The last successful run, even if its record has expired. null if none is known. */
  lastSuccess: LastSuccess | null;
}

export interface LastSuccess {
  run_id: string;
  /** RFC 3339 in UTC. */
  finished_at: string;
}

/** Current counts across all hosts. */
export interface QueueDepth {
  /** Admission slots in use by uploads in progress. */
  reserved: number;
  /**
   * Accepted runs in the queue. `queue_size` limits `reserved + queued`. Runs waiting for their next try do
   * not count.
   */
  queued: number;
  /** Runs in progress. */
  running: number;
}

/** Staged bundles of ended runs, kept for reruns. They do not count as waiting runs. */
export interface KeptBundles {
  bundles: number;
  bytes: number;
}

export interface AdmissionRequest {
  pipelineId: string;
  /**
   * Present if the request can be repeated with a key. A key is valid for one caller and one pipeline.
   * `caller` is the id of an upload token, or a name that cannot be a token id, such as `schedule:nightly`.
   */
  idempotency?: Idempotency;
}

export interface Idempotency {
  caller: string;
  key: string;
  /** If the key belongs to a failed run, starts a new run instead of returning the failed record. */
  rerunFailed?: boolean;
}

export interface AcceptedRun {
  record: RunRecord;
  /** True if an earlier request with the same key already accepted the run. */
  replayed: boolean;
  /**
   * The run's position in the pipeline's queue at acceptance, or 1 if no other run was waiting. null if an
   * earlier version accepted it without a position.
   */
  position: number | null;
}

/** An admission, which must be ended by exactly one call to `accept` or `release`. */
export interface Admission {
  /**
   * Turns the slot into a queued run. If the key was already used with the same content, nothing is queued.
   * Instead, the first run's record is returned with `replayed: true`, and the caller discards its staged
   * files.
   *
   * With `rerunFailed`, the key of a failed run moves to the new run. If several such requests arrive
   * concurrently, one gets a new run and the others its record.
   *
   * Throws `idempotency_conflict` if the key was used with other content. Throws `shutting_down` after the
   * queue was closed, and `internal_error` if the slot has ended. An admission without a slot needs one if
   * its first run was forgotten or has failed in the meantime. It then throws `queue_full`, `pipeline_full`
   * or `idempotency_in_progress`.
   */
  accept(job: PublishJob, contentDigest: Digest): Promise<AcceptedRun>;
  /** Releases the slot and its key. Does nothing if the slot has ended. */
  release(): Promise<void>;
}

/** Runs one job. Resolves even if destinations failed. Rejects if the worker broke or `signal` stopped it. */
export type JobProcessor = (
  job: PublishJob,
  context: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
) => Promise<JobResult>;
