import {
  describeFinding,
  type ErrorRecord,
  errorRecord,
  type Finding,
  publicError,
  withoutPaths,
} from '../../core/lib/errors.ts';
import type { DestinationResult, Progress, RunResult } from '../../core/publish/results/result.ts';
import { traceFields } from '../../core/tracing/trace-context.ts';
import type { PublishJob } from './job.ts';
import { cancelled } from './refusals.ts';
import {
  firstTry,
  noFailedDeliveries,
  type RunDestination,
  type RunProgress,
  type RunRecord,
  type RunWarning,
  type TriggeredBy,
} from './run-record.ts';

/*
 * The states of a run's record:
 *
 *   accepted ──► queued ◄─► running ──► succeeded
 *                   │          └──────► failed     a destination or the worker failed, or the daemon stopped
 *                   └─────────────────► failed     the daemon stopped before the run started
 *
 * If a run is cancelled, it fails, whether it is waiting or running. If it is interrupted and another process
 * is going to continue it, it goes back to queued, and so does a run that is retried (see `run-retry.ts`).
 *
 * Each arrow is a pure function that returns the next record. All queues use these functions to create their
 * records. Since records can be read without a token, all errors go through `publicError`.
 */

export function acceptedRun(job: PublishJob, at: Date): RunRecord {
  return {
    run_id: job.runId,
    pipeline_id: job.pipelineId,
    rerun_of: job.rerunOf ?? null,
    channel: job.channel ?? null,
    bundle_path: job.staged === null ? null : job.bundlePath,
    revision: job.revision ?? null,
    published_by: job.publishedBy ?? null,
    rerunnable: false,
    status: 'accepted',
    triggered_by: triggeredBy(job),
    accepted_at: at.toISOString(),
    queued_at: null,
    started_at: null,
    finished_at: null,
    ...firstTry,
    destinations: [],
    progress: null,
    summary: null,
    warnings: [],
    error: null,
    trace_id: traceFields(job).trace_id ?? null,
    ...noFailedDeliveries,
  };
}

function triggeredBy(job: PublishJob): TriggeredBy {
  const by = { tick: null, token_id: job.tokenId ?? null };
  if (job.staged !== null) return { ...by, kind: 'upload' };
  const { trigger } = job;
  if (trigger === undefined) return { ...by, kind: 'request' };
  return { ...by, kind: trigger.kind, tick: trigger.kind === 'schedule' ? trigger.tick : null };
}

export function queuedRun(record: RunRecord, at: Date): RunRecord {
  return { ...record, status: 'queued', queued_at: at.toISOString() };
}

export function startedRun(record: RunRecord, at: Date): RunRecord {
  const progress = inStage(nothingDone);
  return {
    ...record,
    status: 'running',
    started_at: at.toISOString(),
    next_try_at: null,
    destinations: [],
    warnings: [],
    progress,
  };
}

/** Puts an interrupted run back in the queue. */
export function returnedRun(record: RunRecord): RunRecord {
  if (record.status === 'queued') return record;
  return {
    ...record,
    rerunnable: false,
    status: 'queued',
    started_at: null,
    finished_at: null,
    destinations: [],
    progress: null,
    summary: null,
    warnings: [],
    error: null,
  };
}

/** Applies one of the worker's progress messages. Does nothing if the run is not in progress. */
export function progressedRun(record: RunRecord, message: Progress, at: Date): RunRecord {
  const { progress } = record;
  if (record.status !== 'running' || progress === null) return record;
  if (message.type === 'done') {
    const done = destinationOfAction(message.destinationId, message.result);
    const destinations = [...record.destinations, { ...done, finished_at: at.toISOString() }];
    return { ...record, destinations };
  }
  const { destinationId } = message;
  const { destinations = [] } = progress;
  const counted = added(progress, message);
  const before = destinations.find((one) => one.destination_id === destinationId);
  const after = { destination_id: destinationId, ...added(before ?? nothingDone, message) };
  const list =
    before === undefined
      ? [...destinations, after]
      : destinations.map((one) => (one === before ? after : one));
  const next = { ...counted, destinations: list };
  // Messages about bytes never change the stage.
  return { ...record, progress: message.type === 'bytes' ? { ...progress, ...next } : inStage(next) };
}

type Counts = Pick<RunProgress, 'outputs_done' | 'outputs_total' | 'bytes_done' | 'bytes_total'>;
const nothingDone: Counts = { outputs_done: 0, outputs_total: 0, bytes_done: 0, bytes_total: 0 };

function added(
  { outputs_done, outputs_total, bytes_done, bytes_total }: Counts,
  message: Exclude<Progress, { type: 'done' }>,
): Counts {
  const counts = { outputs_done, outputs_total, bytes_done, bytes_total };
  switch (message.type) {
    case 'planned':
      return {
        ...counts,
        outputs_total: outputs_total + message.outputs,
        bytes_total: bytes_total + message.bytes,
      };
    case 'bytes':
      return { ...counts, bytes_done: bytes_done + message.count };
    case 'output':
      return { ...counts, outputs_done: outputs_done + 1 };
  }
}

/**
 * Reports whether the status, the stage, or a destination has changed, rather than just the numbers within a
 * stage.
 */
export function isStageChange(before: RunRecord, after: RunRecord): boolean {
  return (
    before.status !== after.status ||
    before.progress?.stage !== after.progress?.stage ||
    before.destinations.length !== after.destinations.length
  );
}

/** Determines the stage. Destinations are published concurrently, so the slowest one decides. */
function inStage(counts: Omit<RunProgress, 'stage'>): RunProgress {
  const { outputs_done: done, outputs_total: total } = counts;
  return { ...counts, stage: total === 0 ? 'preparing' : done < total ? 'writing' : 'committing' };
}

/**
 * Applies the worker's result. The run's `error` is about the run as a whole, and every destination has its
 * own error as well.
 */
export function finishedRun(record: RunRecord, result: RunResult, at: Date): RunRecord {
  const error = errorOf(result);
  return {
    ...record,
    status: hasSucceeded(result) ? 'succeeded' : 'failed',
    finished_at: at.toISOString(),
    destinations: result.pipelines
      .flatMap(({ destinations }) => destinations.flatMap(destinationsOfResult))
      .map((one) => ({ ...one, finished_at: doneAt(record, one) })),
    progress: null,
    summary: result.counters,
    warnings: warningsOf(result),
    error: error === null ? null : publicError(error),
  };
}

/**
 * Looks up when this bundle was done at the destination, which was recorded while the run was in progress.
 * Returns null if it was not.
 */
function doneAt({ destinations }: RunRecord, result: RunDestination): string | null {
  const found = destinations.find(
    ({ destination_id: id, destination_path: path }) =>
      id === result.destination_id && path === result.destination_path,
  );
  return found?.finished_at ?? null;
}

/** Reports whether the source and all destinations succeeded. */
function hasSucceeded(result: RunResult): boolean {
  return errorOf(result) === null && result.pipelines.every(({ status }) => status === 'ok');
}

function errorOf(result: RunResult): ErrorRecord | null {
  const errors = result.pipelines.map(
    (pipeline) => pipeline.error ?? pipeline.invalidBundles[0]?.error ?? null,
  );
  return errors.find((one) => one !== null) ?? null;
}

/** The maximum number of warnings in a record. A bundle can cause one for every line of its scene maps. */
const maxWarnings = 100;

function warningsOf({ pipelines, warnings }: RunResult): RunWarning[] {
  const all = [
    ...warnings.map((warning) => publicWarning(warning)),
    ...pipelines.flatMap((pipeline) => [
      ...pipeline.warnings.map((warning) => publicWarning(warning)),
      ...pipeline.destinations.flatMap(({ destinationId, warnings: own }) =>
        own.map((warning) => publicWarning(warning, destinationId)),
      ),
    ]),
  ];
  if (all.length <= maxWarnings) return all;
  const message = `${all.length - maxWarnings} more warnings`;
  return [...all.slice(0, maxWarnings), { destination_id: null, code: 'warnings_omitted', message }];
}

function publicWarning(warning: Finding, destinationId: string | null = null): RunWarning {
  const { code } = warning;
  return { destination_id: destinationId, code, message: withoutPaths(describeFinding(warning)) };
}

/**
 * Fails a run because its worker crashed or because it never started. Keeps the destinations that have been
 * reported so far.
 */
export function failedRun(record: RunRecord, error: ErrorRecord, at: Date): RunRecord {
  return {
    ...record,
    status: 'failed',
    finished_at: at.toISOString(),
    next_try_at: null,
    progress: null,
    error: publicError(error),
  };
}

/**
 * Ends a cancelled run. `result` is the worker's result, or null if there is not one because the run never
 * started or was aborted. If the run had already succeeded, it remains successful.
 */
export function cancelledRun(record: RunRecord, result: RunResult | null, at: Date): RunRecord {
  if (result === null) return failedRun(record, errorRecord(cancelled()), at);
  const finished = finishedRun(record, result, at);
  return finished.status === 'succeeded' ? finished : failedRun(finished, errorRecord(cancelled()), at);
}

/** Reports whether the run ended because it was cancelled. */
export function isCancelled({ status, error }: RunRecord): boolean {
  return status === 'failed' && error?.code === 'cancelled';
}

/*
 * The destinations in a record. Records can be read without a token, so all messages go through `publicError`
 * and `withoutPaths`.
 */

/**
 * The maximum number of paths in a record. Records are kept for every run of the day, and sent out after
 * every change.
 */
export const maxChanges = 20;

/**
 * Returns the rows of a destination. There is one per bundle, or a single one if the whole destination
 * failed.
 */
function destinationsOfResult({ destinationId, actions }: DestinationResult): RunDestination[] {
  return actions.map((action) => destinationOfAction(destinationId, action));
}

export function destinationOfAction(
  destinationId: string,
  result: DestinationResult['actions'][number],
): RunDestination {
  const { reason, error } = result;
  const changes = result.changes.filter(({ fate }) => fate !== 'keep');
  return {
    destination_id: destinationId,
    action: result.action,
    reason: reason === null ? null : { code: reason.code, message: withoutPaths(reason.message) },
    destination_path: result.destinationPath,
    release: result.release,
    url: result.url,
    outputs_written: result.outputsWritten,
    outputs_linked: result.outputsLinked,
    outputs_kept: result.outputsKept,
    outputs_removed: result.outputsRemoved,
    bytes_written: result.bytesWritten,
    bytes_linked: result.bytesLinked,
    bytes_kept: result.bytesKept,
    changes: changes.slice(0, maxChanges).map(({ path, fate, why }) => ({ path, fate, why })),
    changes_omitted: Math.max(0, changes.length - maxChanges),
    error: error === null ? null : publicError(error),
  };
}
