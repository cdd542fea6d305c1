import type { Digest } from '../../core/lib/digest.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { JobProgress, JobResult, PublishJob } from './job.ts';
import type { RunWatch } from './run-changes.ts';
import type { RunFilter, RunPage } from './run-filter.ts';
import type { RunObserver } from './run-observer.ts';
import type { DeliveryNote, RunRecord } from './run-record.ts';
import type { Triggers } from './trigger.ts';

/**
 * Holds accepted uploads until their turn comes, and the record of every run. A caller takes the part that it
 * needs. Three implementations pass one contract suite (`test/contract/queue.ts`): one process, with a
 * journal or without; one Redis; several Redis.
 *
 * The life of an upload: `reserve` takes a slot before a byte of the body is read. The API stages and
 * validates, then either `accept`s (the run record exists from then on, in the order accepted → queued →
 * running → succeeded | failed) or `release`s. The queue starts a job when one of its workers is free and no
 * other job of the pipeline runs; jobs of one pipeline start in the order of acceptance.
 *
 * A run that fails for a passing cause is queued again and waits for its next try (`run-retry.ts`). It ends
 * as `superseded` if a newer run of the same place is accepted before.
 *
 * Every call but `untilFinished`, `watch`, `drain` and `close` throws `queue_unavailable` while the server
 * behind the queue is away; over several servers, each call about a pipeline or run whose server is away, and
 * what tells of all pipelines leaves out those. `accept` throws that and `insufficient_storage` while the
 * disk of the queue keeps nothing.
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

/** Accepts runs: uploads, reruns, and runs that start by themselves. */
export interface RunAdmission {
  /**
   * Takes an admission slot; none is needed, nor counted, if the key was used before, because such a request
   * queues nothing, unless its run is to be rerun. Throws `queue_full` and
   * `pipeline_full`, each with the time after which to try again, `shutting_down`, and
   * `idempotency_in_progress` if another request is still staging an upload with the same key.
   */
  reserve(request: AdmissionRequest): Promise<Admission>;

  /**
   * Queues a run that repeats one that has ended: with the bundle that is still staged for it, which belongs
   * to the new run from then on, or, if the pipeline has a source, with what that holds by then. A run is
   * repeated once: a second call returns the record of the new run with `replayed: true`. A slot is
   * needed. The new run belongs to the span `trace`. Throws `run_not_found`, `run_not_finished`,
   * `bundle_gone` (the run was cancelled, or ended too long or too many bundles ago), `queue_full`,
   * `pipeline_full` and `shutting_down`.
   */
  rerun(runId: string, newRunId: string, trace?: TraceContext): Promise<AcceptedRun>;

  /** Ticks of schedules and changes of sources, which start runs. */
  readonly triggers: Triggers;
}

/** Reads the records of runs, and the state of their pipelines. */
export interface RunReader {
  /** A copy of the run's record; undefined if the run is unknown or its retention is over. */
  find(runId: string): Promise<RunRecord | undefined>;

  /**
   * Copies of the records of retained runs of these pipelines, newest first. Costs as much as the runs that
   * it looks at: those of the page, and those between them that the query leaves out, two thousand in all.
   * Throws `run_not_found` if `before` is no retained run of these pipelines.
   */
  list(pipelineIds: readonly string[], query: RunQuery): Promise<RunPage>;

  /** The state of these pipelines, in their order. The cost does not depend on the number of runs. */
  overview(pipelineIds: readonly string[]): Promise<PipelineOverview[]>;

  /**
   * Since when the first run in line of each of these pipelines waits, in their order: RFC 3339 in UTC, null
   * where none waits, undefined where it is unknown.
   */
  waitingSince(pipelineIds: readonly string[]): Promise<(string | null | undefined)[]>;

  depth(): Promise<QueueDepth>;

  /** Of runs that have ended, on all hosts together. */
  kept(): Promise<KeptBundles>;
}

/** Follows runs while they change. */
export interface RunFollower {
  /**
   * Resolves when the run is finished or unknown, when `signal` aborts, and when the queue is closed. Never
   * rejects: while the server behind the queue is away, the wait goes on. Any number of waits for one run
   * cost as much as one.
   */
  untilFinished(runId: string, signal: AbortSignal): Promise<void>;

  /**
   * Follows the records of all runs, on whichever host they change. `onChange` is called soon after a change,
   * once for any number of them, and must neither throw nor wait. Status, stages and destinations are noticed
   * within 200 ms, and progress within a stage a few times a second; of what a run went through in between,
   * its newest record shows. While the server behind the queue is away nothing is noticed, and
   * nothing is lost. Throws nothing itself; what `RunWatch` returns may reject with `queue_unavailable`.
   */
  watch(onChange: () => void): RunWatch;
}

/** Pauses pipelines. */
export interface PipelineSteering {
  /**
   * From now on no run of the pipeline begins, on any host; what runs goes on, and more is accepted. Of a
   * pipeline that is paused already it replaces the reason. Without a journal the queue of one process
   * forgets it with that.
   */
  pause(pipelineId: string, reason: string | null): Promise<Pause>;

  /** Lets runs of the pipeline begin again. Resolves with whether it was paused. */
  resume(pipelineId: string): Promise<boolean>;

  /** The pipelines that are paused, whether they are configured here or not. */
  pauses(): Promise<ReadonlyMap<string, Pause>>;
}

/** Cancels runs, and brings their next try forward. */
export interface RunSteering {
  /**
   * Cancels a run, on whichever host it is. One that waits ends in its place, as `failed` with the error
   * `cancelled`, and never begins. One that runs is stopped as if the daemon stopped, and ends so unless it
   * succeeds before: whatever it leaves at a destination, the next run of the bundle finishes without force.
   * The bundle that was staged for it goes. Repeating it does nothing. Throws `run_not_found`, and
   * `run_finished` if the run has ended in another way.
   */
  cancel(runId: string): Promise<Cancellation>;

  /**
   * Tries a run that waits for its next try as soon as a worker is free, and resolves with its record. A run
   * that waits for its turn, or runs, stays as it is. Throws `run_not_found`, and `run_finished` if the run
   * has ended.
   */
  retryNow(runId: string): Promise<RunRecord>;
}

/** Notes deliveries of events in the records of their runs. */
export interface DeliveryNotes {
  /** Notes in the run's record what became of a delivery of its event; does nothing if the run is unknown. */
  noteDelivery(runId: string, note: DeliveryNote): Promise<void>;
}

/** Starts and ends the work of this process. */
export interface QueueLifecycle {
  /** Begins to hand jobs to `process`, and to report its runs to `observer`, if there is one. */
  start(process: JobProcessor, observer?: RunObserver): Promise<void>;

  /** From now on `reserve` throws `shutting_down`; what was accepted still runs. */
  drain(): void;

  /**
   * Drains, waits at most `timeoutMs` milliseconds for the jobs of this process, aborts the rest, and
   * releases every resource. Resolves with the ids of the runs that it interrupted, and of those that are
   * lost with this process: in memory, all that still waited (they get their turn within the time); with a
   * journal or in Redis, none, since the next process or other hosts take them. A second call returns the
   * first one's answer.
   */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface Pause {
  /** RFC 3339 in UTC. */
  since: string;
  reason: string | null;
}

export interface Cancellation {
  /** `forgotten`: it waited. `stopping`: it runs, and ends soon. `repeated`: it was cancelled before. */
  outcome: 'forgotten' | 'stopping' | 'repeated';
  record: RunRecord;
}

export interface RunQuery extends RunFilter {
  /** Runs on the page, at least 1. */
  limit: number;
  /** Only runs that were accepted before this one. */
  before?: string | null;
}

export interface PipelineOverview {
  /** Accepted runs that wait for their turn. */
  waiting: number;
  /** Runs that wait for their next try. */
  retrying: number;
  /** Id of the run that a worker has begun; null if there is none. */
  running: string | null;
  /** Copy of the record of the run that was accepted last; null if none is retained. */
  lastRun: RunRecord | null;
  /** The run that succeeded last, even if its record is retained no longer; null if none is known. */
  lastSuccess: LastSuccess | null;
  /** The server behind the queue of this pipeline is away, and all of this may be otherwise. */
  isAway?: true;
}

export interface LastSuccess {
  run_id: string;
  /** RFC 3339 in UTC. */
  finished_at: string;
}

/** How many there are now, on all hosts together. */
export interface QueueDepth {
  /** Admission slots: uploads that are being received. */
  reserved: number;
  /**
   * Accepted runs that wait for their turn. `queue_size` limits `reserved + queued`: runs that wait for their
   * next try do not count.
   */
  queued: number;
  /** Runs that a worker has begun. */
  running: number;
}

/** Staged bundles that runs could be repeated with. They wait for nothing, and count as no run. */
export interface KeptBundles {
  bundles: number;
  bytes: number;
}

export interface AdmissionRequest {
  pipelineId: string;
  /**
   * Present if the request can be repeated under a key; a key counts for one caller and one pipeline.
   * `caller` is whoever chose the key: the id of an upload token, or a name that no token id can have, such
   * as `schedule:nightly`.
   */
  idempotency?: Idempotency;
}

export interface Idempotency {
  caller: string;
  key: string;
  /** If the key was used before and its run has failed: a new run instead of the failed one's record. */
  rerunFailed?: boolean;
}

export interface AcceptedRun {
  record: RunRecord;
  /** The run was accepted by an earlier request with the same key. */
  replayed: boolean;
  /**
   * Its place in the line of its pipeline when it was accepted: 1 if no other run of the pipeline waited.
   * Null if it was accepted by a version that did not count.
   */
  position: number | null;
}

/** One slot. Exactly one of `accept` and `release` ends it. */
export interface Admission {
  /**
   * Turns the slot into a queued run. If the key was used before with the same content, nothing is queued and
   * the first run's record is returned with `replayed: true`: the caller then discards what it staged. Of a
   * run that has failed, with `rerunFailed`, the new run takes the key instead; of several such requests at
   * once one gets a new run and the others its record. Throws `idempotency_conflict` if the key was used with
   * other content, `shutting_down` after the queue was closed, and `internal_error` if the slot has ended
   * already. An admission without a slot, whose first run was forgotten or has failed meanwhile, needs one
   * now: `queue_full`, or `idempotency_in_progress`.
   */
  accept(job: PublishJob, contentDigest: Digest): Promise<AcceptedRun>;
  /** Gives the slot and its key back. Does nothing if the slot has ended already. */
  release(): Promise<void>;
}

/**
 * Runs one job. Resolves also if destinations failed; rejects if the worker broke or `signal` stopped it.
 */
export type JobProcessor = (
  job: PublishJob,
  context: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
) => Promise<JobResult>;
