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
 * The life of a run's record:
 *
 *   accepted ──► queued ◄─► running ──► succeeded
 *                   │          └──────► failed     a destination or the worker failed, or the daemon stopped
 *                   └─────────────────► failed     the daemon stopped before the run's turn came
 *
 * A cancelled run fails, while it waits or while it runs.
 * A run that was interrupted and is to be taken up again goes back to queued, and so does a run that is tried
 * again (`run-retry.ts`).
 *
 * Each arrow is a pure function from a record to the next. Only these functions make records, so they read
 * the same whatever queue is in use. Records are readable without a token, so errors go through
 * `publicError`.
 */

export function acceptedRun(job: PublishJob, at: Date): RunRecord {
  return {
    run_id: job.runId,
    pipeline_id: job.pipelineId,
    rerun_of: job.rerunOf ?? null,
    channel: job.channel ?? null,
    revision: job.revision ?? null,
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
  if (job.staged !== null) return { kind: 'upload', tick: null };
  const { trigger } = job;
  if (trigger === undefined) return { kind: 'request', tick: null };
  return { kind: trigger.kind, tick: trigger.kind === 'schedule' ? trigger.tick : null };
}

export function queuedRun(record: RunRecord, at: Date): RunRecord {
  return { ...record, status: 'queued', queued_at: at.toISOString() };
}

export function startedRun(record: RunRecord, at: Date): RunRecord {
  const progress = inStage({ outputs_done: 0, outputs_total: 0, bytes_done: 0, bytes_total: 0 });
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

/** The run was begun and not brought to its end, and waits for its turn again. */
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

/** Adds one message of the worker. Returns a record that is not running unchanged. */
export function progressedRun(record: RunRecord, message: Progress): RunRecord {
  const { progress } = record;
  if (record.status !== 'running' || progress === null) return record;
  switch (message.type) {
    case 'planned':
      return {
        ...record,
        progress: inStage({
          ...progress,
          outputs_total: progress.outputs_total + message.outputs,
          bytes_total: progress.bytes_total + message.bytes,
        }),
      };
    case 'bytes':
      return { ...record, progress: { ...progress, bytes_done: progress.bytes_done + message.count } };
    case 'output':
      return { ...record, progress: inStage({ ...progress, outputs_done: progress.outputs_done + 1 }) };
    case 'done':
      return {
        ...record,
        destinations: [...record.destinations, destinationOfAction(message.destinationId, message.result)],
      };
  }
}

/**
 * Whether more has changed than what was counted within a stage: status, stage, or a destination. Pure.
 */
export function isStep(before: RunRecord, after: RunRecord): boolean {
  return (
    before.status !== after.status ||
    before.progress?.stage !== after.progress?.stage ||
    before.destinations.length !== after.destinations.length
  );
}

/** Destinations work side by side: the stage is that of the one that is behind. */
function inStage(counts: Omit<RunProgress, 'stage'>): RunProgress {
  const { outputs_done: done, outputs_total: total } = counts;
  return { ...counts, stage: total === 0 ? 'preparing' : done < total ? 'writing' : 'committing' };
}

/**
 * The worker answered. `error` is what stopped the run as a whole; the failure of a destination is with that
 * destination.
 */
export function finishedRun(record: RunRecord, result: RunResult, at: Date): RunRecord {
  const error = errorOf(result);
  return {
    ...record,
    status: hasSucceeded(result) ? 'succeeded' : 'failed',
    finished_at: at.toISOString(),
    destinations: result.pipelines.flatMap(({ destinations }) => destinations.flatMap(destinationsOfResult)),
    progress: null,
    summary: result.counters,
    warnings: warningsOf(result),
    error: error === null ? null : publicError(error),
  };
}

/** Whether nothing failed, neither at the source nor at any destination. */
function hasSucceeded(result: RunResult): boolean {
  return errorOf(result) === null && result.pipelines.every(({ status }) => status === 'ok');
}

function errorOf(result: RunResult): ErrorRecord | null {
  const errors = result.pipelines.map(
    (pipeline) => pipeline.error ?? pipeline.invalidBundles[0]?.error ?? null,
  );
  return errors.find((one) => one !== null) ?? null;
}

/** So many warnings stand in a record: a bundle may have one for each line of its scene maps. */
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

/** The worker broke, or the run never had its turn. Keeps what destinations had reported until then. */
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
 * Somebody cancelled the run. `result` is what the worker answered to that; null if it gave no answer, or if
 * the run had not begun. A run that had succeeded by then has succeeded.
 */
export function cancelledRun(record: RunRecord, result: RunResult | null, at: Date): RunRecord {
  if (result === null) return failedRun(record, errorRecord(cancelled()), at);
  const finished = finishedRun(record, result, at);
  return finished.status === 'succeeded' ? finished : failedRun(finished, errorRecord(cancelled()), at);
}

/** Whether the run has ended because somebody cancelled it. */
export function isCancelled({ status, error }: RunRecord): boolean {
  return status === 'failed' && error?.code === 'cancelled';
}

/*
 * What a record says of a destination. Records are readable without a token, so that texts go through
 * `publicError` and `withoutPaths`. Pure.
 */

/** So many paths stand in a record, which is kept for each run of a day and sent with each of its changes. */
export const maxChanges = 20;

/** The rows of a destination: one for each bundle, and one for a failure of the destination as a whole. */
function destinationsOfResult({ destinationId, actions }: DestinationResult): RunDestination[] {
  return actions.map((action) => destinationOfAction(destinationId, action));
}

/** The row of one action at a destination. */
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
