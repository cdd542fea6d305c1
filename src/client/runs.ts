import { WaybillError } from '../core/lib/errors.ts';
import type { PipelineList, RunRecord, RunSearch } from './generated/api-types.ts';
import type { Connection } from './http/connection.ts';
import { parseRunRecord } from './run-record.ts';
import { acceptedRun, type AcceptedRun } from './upload/accepted-run.ts';

/*
 * Requests about runs and pipelines.
 */

/** Selects runs. Default: all runs of the token's pipelines. */
export interface RunFilter {
  pipelines?: readonly string[];
  status?: RunRecord['status'];
  /** RFC 3339: accepted at this time or later. */
  since?: string;
  /** Words that all occur in the record. */
  q?: string;
}

const maxPageSize = 500;

/** Yields up to `limit` retained runs, newest first, requesting page by page. */
export async function* listRuns(
  connection: Connection,
  { pipelines, status, since, q }: RunFilter,
  limit: number,
): AsyncGenerator<RunRecord> {
  const query = {
    limit: String(Math.min(limit, maxPageSize)),
    pipeline: pipelines?.join(','),
    status,
    since,
    q,
  };
  let left = limit;
  let next: string | null = null;
  do {
    const answer = await connection.askJson(next === null ? { path: 'v1/runs', query } : { path: next });
    const body = answer.body as RunSearch;
    for (const run of body.runs.slice(0, left)) yield parseRunRecord(run);
    left -= body.runs.length;
    next = body.next;
  } while (next !== null && left > 0);
}

export async function showRun(connection: Connection, runId: string): Promise<RunRecord> {
  return parseRunRecord((await connection.askJson({ path: runPath(runId) })).body);
}

/** Cancels a run and returns its record. A started run may still be stopping. */
export async function cancelRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'cancel');
  return parseRunRecord((await connection.askJson({ method: 'POST', path })).body);
}

/**
 * Starts the next try of a waiting run immediately, and returns its record. Throws `run_not_found` and
 * `run_finished`.
 */
export async function retryRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'retry');
  return (await connection.askJson({ method: 'POST', path })).body as RunRecord;
}

/**
 * Repeats an ended run with the bundle that the daemon still has, and returns the new run. All tries make one
 * run. Throws `run_not_found`, `run_not_finished` and `bundle_gone`.
 */
export async function rerunRun(connection: Connection, runId: string): Promise<AcceptedRun> {
  const path = await actionPath(connection, runId, 'rerun');
  return acceptedRun(await connection.askJson({ method: 'POST', path }));
}

export interface WaitOptions {
  /** In milliseconds. Default: no timeout. */
  timeoutMs?: number;
  /** Called with every received record until the run has ended. */
  onRecord?: (run: RunRecord) => void;
}

const maxWaitSeconds = 30;
/** The minimum polling interval, because a stopping daemon responds immediately. */
const minPollMs = 1000;

/**
 * Waits until the run has ended and returns its record. Uses long polling: the daemon holds each response for
 * up to half a minute, which proxies tolerate. Throws `run_unfinished` if the run has not ended in time, and
 * `run_not_found`.
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
    const asked = clock.monotonic();
    const wait = Math.max(0, Math.min(waitSeconds, Math.ceil((deadline - asked) / 1000)));
    const answer = await connection.askJson({ path: runPath(runId), query: { wait: String(wait) } });
    const run = parseRunRecord(answer.body);
    onRecord?.(run);
    if (run.finished_at !== null) return run;
    const now = clock.monotonic();
    if (now >= deadline)
      throw new WaybillError(
        'run_unfinished',
        `the run ${runId} has not ended in time: it is ${run.status}`,
        {
          hint: 'it goes on without you: look at it later, by its id',
        },
      );
    if (now - asked < minPollMs) await clock.sleep(minPollMs, signal);
  }
}

export async function listPipelines(connection: Connection): Promise<PipelineList['pipelines']> {
  const { body } = await connection.askJson({ path: 'v1/pipelines' });
  return (body as PipelineList).pipelines;
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
