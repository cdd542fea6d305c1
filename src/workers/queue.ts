import type { Digest } from '../core/digest.ts';
import type { JobResult, JobProgress, PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';

/**
 * Where accepted uploads wait, and what is known of every run. Two implementations, memory and BullMQ, pass
 * one contract suite (`test/contract/queue.ts`).
 *
 * The life of an upload: `reserve` takes a slot before a byte of the body is read. The API stages and
 * validates, then either `accept`s (the run record exists from then on, in the order accepted → queued →
 * running → succeeded | failed) or `release`s. The queue starts a job when a place is free and no other job
 * of the pipeline runs; jobs of one pipeline start in the order of acceptance.
 */
export interface JobQueue {
  /**
   * Takes an admission slot. Throws `queue_full`, `shutting_down`, and, where the scope is one that another
   * request is still staging, `idempotency_in_progress`. This and every other call but `drain` and `close`
   * throws `queue_unavailable` while what keeps the queue is away.
   */
  reserve(request: AdmissionRequest): Promise<Admission>;

  /** The run's record while it is retained. */
  find(runId: string): Promise<RunRecord | undefined>;

  /** Runs that are retained, newest first. */
  list(pipelineId: string): Promise<RunRecord[]>;

  depth(): Promise<{ reserved: number; queued: number; running: number }>;

  /** Begins to hand jobs to `process`. */
  start(process: JobProcessor): Promise<void>;

  /** From now on `reserve` throws `shutting_down`; what was accepted still runs. */
  drain(): void;

  /**
   * Drains, waits at most `timeoutMs` for the jobs that run here, aborts the rest, and gives back everything.
   * Returns the runs that it interrupted and those that are lost with this process: in memory all that waited
   * (which therefore still get their turn within the time), in Redis none, since other hosts take them. A
   * second call returns the first one's answer.
   */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface AdmissionRequest {
  pipelineId: string;
  /** Present where the request carries an Idempotency-Key; scoped with the pipeline. */
  idempotency?: { tokenId: string; key: string };
}

/** One slot. Exactly one of `accept` and `release` ends it; a further call of either does nothing. */
export interface Admission {
  /**
   * Turns the slot into a queued run. Where the key was used with the same manifest, nothing is queued and
   * the first run's record is returned with `replayed: true`: the caller then discards what it staged. With
   * another manifest: `idempotency_conflict`.
   */
  accept(job: PublishJob, manifestDigest: Digest): Promise<{ record: RunRecord; replayed: boolean }>;
  release(): Promise<void>;
}

export type JobProcessor = (
  job: PublishJob,
  context: { signal: AbortSignal; onProgress: (progress: JobProgress) => void },
) => Promise<JobResult>;
