import type { PublishJob, RunOrigin } from './job.ts';
import type { BundleUsage } from './job-queue.ts';
import type { RunRecord } from './run-record.ts';
import { isCancelled } from './run-transitions.ts';

/*
 * After a run has finished, its bundle stays staged, so that the run can be repeated with exactly the same
 * bytes. A bundle is never kept longer than the run's record. These functions apply the limits, and are
 * shared by all queues. If there are too many bundles, the oldest are deleted first.
 */

export interface RetentionLimits {
  /**
   * How long a bundle is kept after its run has finished, in milliseconds. It is never kept longer than the
   * record.
   */
  keepMs: number;
  maxBundles: number;
  /** The maximum total size of all bundles. */
  maxBytes: number;
}

/** `gone` means that the bundle is not kept, or that it now belongs to the run that repeats this one. */
export type BundleState = 'none' | 'staged' | 'gone';

/** The new run that repeats an earlier one. */
export interface Rerun {
  runId: string;
  /** The request that asked for the rerun. */
  origin: RunOrigin;
}

export interface RetainedBundle {
  runId: string;
  bytes: number;
}

/** Reports whether a finished run's bundle is kept. It is not if the run was cancelled. */
export function isBundleRetained(job: PublishJob, record: RunRecord): boolean {
  return job.staged !== null && !isCancelled(record);
}

/** Reports whether a run from an earlier process still needs its staged bundle. */
export function needsBundle({
  job,
  bundle,
  record,
}: {
  job: PublishJob;
  bundle: BundleState;
  record: RunRecord;
}): boolean {
  return bundle === 'staged' && (record.finished_at === null || isBundleRetained(job, record));
}

/** Reports whether a finished run can be rerun, provided that it has not been rerun before. */
export function isRerunnable(job: PublishJob, record: RunRecord): boolean {
  return job.staged === null || isBundleRetained(job, record);
}

/** Returns the size of a job's staged bundle in bytes. Returns 0 if there is none or its size is unknown. */
export function stagedBytes(job: PublishJob): number {
  return job.staged === null ? 0 : (job.archive?.size ?? job.bytes ?? 0);
}

/**
 * Creates the job of a run that repeats `job`. It has the trace and the token of the request that asked for
 * it.
 */
export function rerunJob<Job extends PublishJob>(job: Job, { runId, origin }: Rerun): Job {
  const rerun = { ...job, runId, rerunOf: job.runId };
  delete rerun.traceparent;
  delete rerun.tracestate;
  delete rerun.tokenId;
  Object.assign(rerun, origin);
  if (rerun.staged === null) delete rerun.trigger;
  return rerun;
}

/** Returns a copy of the job without its bundle, which has been deleted or now belongs to another run. */
export function withoutBundle(job: PublishJob): PublishJob {
  const { runId, pipelineId, rerunOf, channel, revision, publishedBy } = job;
  return { runId, pipelineId, rerunOf, channel, revision, publishedBy, staged: null };
}

/**
 * Determines which bundles to delete so that the rest is within the limits. Stops looking once that is the
 * case.
 *
 * @param kept The kept bundles, oldest first.
 * @param all Their number and total size.
 */
export function selectEvictions<Kept extends RetainedBundle>(
  kept: Iterable<Kept>,
  all: BundleUsage,
  { maxBundles, maxBytes }: Pick<RetentionLimits, 'maxBundles' | 'maxBytes'>,
): Kept[] {
  const evicted: Kept[] = [];
  let { bundles, bytes } = all;
  for (const bundle of kept) {
    if (bundles <= maxBundles && bytes <= maxBytes) break;
    bundles -= 1;
    bytes -= bundle.bytes;
    evicted.push(bundle);
  }
  return evicted;
}
