import type { PublishJob, RunOrigin } from './job.ts';
import type { KeptBundles } from './job-queue.ts';
import type { RunRecord } from './run-record.ts';
import { isCancelled } from './run-transitions.ts';

/*
 * The bundle of an ended run stays staged, so that the run can be repeated with the same bytes. It is kept at
 * most as long as the record. These functions apply the limits for every queue. The oldest bundles are
 * removed first.
 */

export interface KeepLimits {
  /** How long a bundle is kept after its run has ended, in milliseconds, but no longer than the record. */
  keepMs: number;
  maxBundles: number;
  /** Maximum total staged size of all bundles. */
  maxBytes: number;
}

/** `gone`: the bundle is no longer kept, or it belongs to the run that repeats this one. */
export type BundleState = 'none' | 'staged' | 'gone';

/** Properties of a new run that repeats another. */
export interface NewRun {
  runId: string;
  /** The request that asked for the new job. */
  origin: RunOrigin;
}

export interface KeptBundle {
  runId: string;
  bytes: number;
}

/** Reports whether an ended run's bundle is kept. A cancelled run's bundle is not. */
export function isKept(job: PublishJob, record: RunRecord): boolean {
  return job.staged !== null && !isCancelled(record);
}

/** Reports whether a run from an earlier process needs its staged bundle. */
export function needsBundle({
  job,
  bundle,
  record,
}: {
  job: PublishJob;
  bundle: BundleState;
  record: RunRecord;
}): boolean {
  return bundle === 'staged' && (record.finished_at === null || isKept(job, record));
}

/** Reports whether an ended run can be rerun, assuming that it has not been rerun already. */
export function isRerunnable(job: PublishJob, record: RunRecord): boolean {
  return job.staged === null || isKept(job, record);
}

/** Returns the size of a job's staged bundle in bytes, or 0 if it has none or the size is unknown. */
export function stagedBytes(job: PublishJob): number {
  return job.staged === null ? 0 : (job.archive?.size ?? job.bytes ?? 0);
}

/** Returns the job of a new run that repeats `job` on request, with that request's trace and token. */
export function jobAgain<Job extends PublishJob>(job: Job, { runId, origin }: NewRun): Job {
  const again = { ...job, runId, rerunOf: job.runId };
  delete again.traceparent;
  delete again.tracestate;
  delete again.tokenId;
  Object.assign(again, origin);
  if (again.staged === null) delete again.trigger;
  return again;
}

/** Returns the job without its bundle, after the bundle was removed or passed to another run. */
export function withoutBundle(job: PublishJob): PublishJob {
  const { runId, pipelineId, rerunOf, channel, revision, publishedBy } = job;
  const more = {
    ...(rerunOf === undefined ? {} : { rerunOf }),
    ...(channel === undefined ? {} : { channel }),
    ...(revision === undefined ? {} : { revision }),
    ...(publishedBy === undefined ? {} : { publishedBy }),
  };
  return { runId, pipelineId, staged: null, ...more };
}

/**
 * Returns the bundles to remove so that the others are within the limits. Does not examine the others.
 *
 * @param kept Kept bundles, oldest first.
 * @param all Their number and total bytes.
 */
export function beyondLimits<Kept extends KeptBundle>(
  kept: Iterable<Kept>,
  all: KeptBundles,
  { maxBundles, maxBytes }: Pick<KeepLimits, 'maxBundles' | 'maxBytes'>,
): Kept[] {
  const gone: Kept[] = [];
  let { bundles, bytes } = all;
  for (const bundle of kept) {
    if (bundles <= maxBundles && bytes <= maxBytes) break;
    bundles -= 1;
    bytes -= bundle.bytes;
    gone.push(bundle);
  }
  return gone;
}
