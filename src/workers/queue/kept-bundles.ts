import type { TraceContext } from '../../core/tracing/trace-context.ts';
import type { PublishJob } from './job.ts';
import type { KeptBundles } from './job-queue.ts';
import type { RunRecord } from './run-record.ts';
import { isCancelled } from './run-transitions.ts';

/*
 * The bundle of a run that has ended stays staged as long as its record, so that the run can be repeated with
 * the very same bytes, as far as these limits allow. Decided here, purely, for every queue; the oldest go
 * first.
 */

export interface KeepLimits {
  /** How long a bundle is kept after its run ended, in milliseconds; the run's record is not outlived. */
  keepMs: number;
  maxBundles: number;
  /** Of all of them together, as they are staged. */
  maxBytes: number;
}

/** What was staged for a run; `gone` once it is not kept, or the run that repeats this one has it. */
export type BundleState = 'none' | 'staged' | 'gone';

/** What a run is given that repeats another. */
export interface NewRun {
  runId: string;
  /** As that of a job. */
  trace: TraceContext;
}

export interface KeptBundle {
  runId: string;
  bytes: number;
}

/** Whether what is staged for a run that has ended is kept: nobody wants what was cancelled. Pure. */
export function isKept(job: PublishJob, record: RunRecord): boolean {
  return job.staged !== null && !isCancelled(record);
}

/** Whether a run, as an earlier process left it, needs what is staged for it. Pure. */
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

/** Whether a run that has ended could be run again if it was not before. Pure. */
export function isRerunnable(job: PublishJob, record: RunRecord): boolean {
  return job.staged === null || isKept(job, record);
}

/** Bytes of what is staged for a job; 0 if nothing is, or if it is not known. Pure. */
export function stagedBytes(job: PublishJob): number {
  return job.staged === null ? 0 : (job.archive?.size ?? job.bytes ?? 0);
}

/**
 * The job of a new run that publishes the same once more, because somebody asked for it; it belongs to the
 * trace of that request. Pure.
 */
export function jobAgain<Job extends PublishJob>(job: Job, { runId, trace }: NewRun): Job {
  const again = { ...job, runId, rerunOf: job.runId };
  delete again.traceparent;
  delete again.tracestate;
  Object.assign(again, trace);
  if (again.staged === null) delete again.trigger;
  return again;
}

/** The job as it is once its bundle belongs to another run, or is gone. Pure. */
export function withoutBundle({ runId, pipelineId, rerunOf, channel, revision }: PublishJob): PublishJob {
  const more = {
    ...(rerunOf === undefined ? {} : { rerunOf }),
    ...(channel === undefined ? {} : { channel }),
    ...(revision === undefined ? {} : { revision }),
  };
  return { runId, pipelineId, staged: null, ...more };
}

/**
 * Those of the bundles that go, so that the others are within the limits. Looks at no others. Pure.
 *
 * @param kept The oldest first.
 * @param all How many they are, and their bytes.
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
