import { WaybillError } from '../core/errors.ts';
import type { PipelineList, RunRecord, RunSearch } from './generated/api-types.ts';
import type { Connection } from './http/connection.ts';
import { parseRunRecord } from './run-record.ts';
import { acceptedRun, type AcceptedRun } from './upload/accepted-run.ts';

/** Which runs are meant; left out: all of the token's pipelines. */
export interface RunFilter {
  pipelines?: readonly string[];
  status?: RunRecord['status'];
  /** RFC 3339: accepted at this time or later. */
  since?: string;
  /** Words that all occur in the record. */
  q?: string;
}

const mostOnAPage = 500;

/** The retained runs, newest first, page by page: at most `limit` of them. */
export async function* listRuns(
  connection: Connection,
  { pipelines, status, since, q }: RunFilter,
  limit: number,
): AsyncGenerator<RunRecord> {
  const query = {
    limit: String(Math.min(limit, mostOnAPage)),
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

/** Cancels a run and returns its record: one that runs is still being stopped then. */
export async function cancelRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'cancel');
  return parseRunRecord((await connection.askJson({ method: 'POST', path })).body);
}

/**
 * Tries a run now that waits for its next try, and returns its record. Throws `run_not_found` and
 * `run_finished`.
 */
export async function retryRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'retry');
  return (await connection.askJson({ method: 'POST', path })).body as RunRecord;
}

/**
 * Repeats a run that has ended, with the bundle that the daemon still has of it, and returns the new run. Any
 * number of tries make one run. Throws `run_not_found`, `run_not_finished` and `bundle_gone`.
 */
export async function rerunRun(connection: Connection, runId: string): Promise<AcceptedRun> {
  const path = await actionPath(connection, runId, 'rerun');
  return acceptedRun(await connection.askJson({ method: 'POST', path }));
}

export interface WaitOptions {
  /** In milliseconds; left out: as long as it takes. */
  timeoutMs?: number;
  /** Gets every record that is seen until the run has ended. */
  onRecord?: (run: RunRecord) => void;
}

const mostSeconds = 30;
/** A daemon that stops answers at once; asking it again and again would be no waiting. */
const shortestWaitMs = 1000;

/**
 * The record of the run once it has ended. The daemon holds each answer for half a minute, which every proxy
 * bears. Throws `run_unfinished` if the run has not ended in time, and `run_not_found`.
 */
export async function waitForRun(
  connection: Connection,
  runId: string,
  { timeoutMs = Infinity, onRecord }: WaitOptions = {},
): Promise<RunRecord> {
  const { clock, signal } = connection;
  const deadline = clock.monotonic() + timeoutMs;
  // Well within what an answer may take.
  const waitSeconds = Math.min(mostSeconds, Math.floor(connection.answerMs / 2000));
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
    if (now - asked < shortestWaitMs) await clock.sleep(shortestWaitMs, signal);
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
