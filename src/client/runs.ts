import { randomUUID } from 'node:crypto';
import { hasCode, WaybillError, withDetails } from '../core/lib/errors.ts';
import { acceptedAnswer, pipelineList, requireShape, runPage, runRecord } from './answers.ts';
import type { Connection, JsonResponse } from './connection.ts';
import type { PipelineList, RunRecord, RunSearch } from './generated/api-types.ts';

/* Requests about runs and pipelines. */

/** Selects runs. Default: all runs of the pipelines that the token is valid for. */
export interface RunFilter {
  pipelines?: readonly string[];
  status?: RunRecord['status'];
  /** Only runs accepted at this time or later (RFC 3339). For a date, that is the start of the day in UTC. */
  since?: string;
  /** Only runs accepted at this time or earlier (RFC 3339). For a date, that is the end of the day in UTC. */
  until?: string;
  /** One or more words. Only runs whose records contain all of them. */
  q?: string;
}

const maxPageSize = 500;

/** Yields up to `limit` of the runs that the daemon still has, newest first. Loads one page after another. */
export async function* listRuns(
  connection: Connection,
  { pipelines, status, since, until, q }: RunFilter,
  limit: number,
): AsyncGenerator<RunRecord> {
  const query = {
    limit: String(Math.min(limit, maxPageSize)),
    pipeline: pipelines?.join(','),
    status,
    since,
    until,
    q,
  };
  let remaining = limit;
  let next: string | null = null;
  do {
    const answer = await connection.requestJson(next === null ? { path: 'v1/runs', query } : { path: next });
    const page: RunSearch = requireShape(answer, runPage);
    yield* page.runs.slice(0, remaining);
    remaining -= page.runs.length;
    next = page.next;
  } while (next !== null && remaining > 0);
}

export async function showRun(connection: Connection, runId: string): Promise<RunRecord> {
  return requireShape(await connection.requestJson({ path: runPath(runId) }), runRecord);
}

/** Cancels a run and returns its record. If it is in progress, it may take a moment to stop. */
export async function cancelRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'cancel');
  return requireShape(await connection.requestJson({ method: 'POST', path }), runRecord);
}

/**
 * Starts the next attempt of a waiting run immediately, and returns the run's record. Throws `run_not_found`
 * or `run_finished`.
 */
export async function retryRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'retry');
  return requireShape(await connection.requestJson({ method: 'POST', path }), runRecord);
}

/**
 * Repeats a finished run with its original bundle, which the daemon still has, and returns the new run. No
 * matter how often the request is sent, there is only one new run. Throws `run_not_found`,
 * `run_not_finished`, or `bundle_gone`.
 */
export async function rerunRun(connection: Connection, runId: string): Promise<AcceptedRun> {
  const path = await actionPath(connection, runId, 'rerun');
  return acceptedRun(await connection.requestJson({ method: 'POST', path }));
}

/**
 * Starts a run of a pipeline that reads a source. No matter how often the request is retried, there is only
 * one run. Throws `pipeline_takes_uploads` if the pipeline has no source.
 */
export async function startRun(
  connection: Connection,
  pipeline: string,
  { channel }: { channel?: string | undefined } = {},
): Promise<AcceptedRun> {
  const path = `v1/pipelines/${encodeURIComponent(pipeline)}/runs`;
  const headers = { 'idempotency-key': randomUUID() };
  return acceptedRun(await connection.requestJson({ method: 'POST', path, query: { channel }, headers }));
}

export interface WaitOptions {
  /** In milliseconds. Default: waits forever. */
  timeoutMs?: number;
  /** Called with every record that is received while waiting. */
  onRecord?: (run: RunRecord) => void;
}

const maxWaitSeconds = 30;
/** The minimum time between two requests. A daemon that is shutting down answers immediately. */
const minPollMs = 1000;

/**
 * Waits until the run has finished and returns its record. This uses long polling: the daemon waits for up to
 * half a minute before it responds, which is no problem for proxies. Throws `run_unfinished` if the run
 * does not finish in time, or `run_not_found`. If the daemon becomes unreachable, the error names the run.
 */
export async function waitForRun(
  connection: Connection,
  runId: string,
  { timeoutMs = Infinity, onRecord }: WaitOptions = {},
): Promise<RunRecord> {
  const { clock, signal } = connection;
  const deadline = clock.monotonic() + timeoutMs;
  // At most half of the response timeout.
  const waitSeconds = Math.min(maxWaitSeconds, Math.floor(connection.answerMs / 2000));
  for (;;) {
    const requestedAt = clock.monotonic();
    const wait = Math.max(0, Math.min(waitSeconds, Math.ceil((deadline - requestedAt) / 1000)));
    let isFirst = true;
    const answer = await connection
      .withRetries(async (requests) => {
        if (!isFirst && clock.monotonic() >= deadline) return null;
        isFirst = false;
        return requests.requestJson({ path: runPath(runId), query: { wait: String(wait) } });
      })
      .catch((error: unknown) => {
        throw namingRun(error, runId);
      });
    if (answer === null) throw unfinished(runId, 'the daemon does not answer');
    const run = requireShape(answer, runRecord);
    onRecord?.(run);
    if (run.finished_at !== null) return run;
    const now = clock.monotonic();
    if (now >= deadline) throw unfinished(runId, `it is ${run.status}`);
    if (now - requestedAt < minPollMs) await clock.sleep(minPollMs, signal);
  }
}

function unfinished(runId: string, why: string): WaybillError {
  return new WaybillError('run_unfinished', `the run ${runId} has not ended in time: ${why}`, {
    hint: 'the run continues; show it later by its id',
  });
}

/** Adds the run to the error of a daemon that became unreachable. The run may go on without this client. */
function namingRun(error: unknown, runId: string): unknown {
  if (!hasCode(error, 'connection_lost') && !hasCode(error, 'daemon_unreachable')) return error;
  const { message } = error as WaybillError;
  return withDetails(error as WaybillError, {
    message: `the result of the run ${runId} is unknown: ${message}`,
    hint: `the run may continue; when the daemon answers again: waybill runs follow ${runId}`,
  });
}

export async function listPipelines(connection: Connection): Promise<PipelineList['pipelines']> {
  const answer = await connection.requestJson({ path: 'v1/pipelines' });
  return requireShape(answer, pipelineList).pipelines;
}

function runPath(runId: string): string {
  return `runs/${encodeURIComponent(runId)}`;
}

async function actionPath(
  connection: Connection,
  runId: string,
  action: 'cancel' | 'rerun' | 'retry',
): Promise<string> {
  const { pipeline_id: pipelineId } = await showRun(connection, runId);
  return `v1/pipelines/${encodeURIComponent(pipelineId)}/runs/${encodeURIComponent(runId)}/${action}`;
}

export interface AcceptedRun {
  runId: string;
  /** The run's position in its pipeline's queue when it was accepted, or null if that is not known. */
  position: number | null;
  /** True if the daemon had already accepted the same bundle or the same rerun, so no new run was started. */
  isReplayed: boolean;
}

/** Parses the response to a request that starts a run. */
export function acceptedRun(answer: JsonResponse): AcceptedRun {
  const { run_id: runId, position } = requireShape(answer, acceptedAnswer);
  const isReplayed = answer.headers['idempotency-replayed'] === 'true';
  return { runId, position: position ?? null, isReplayed };
}
