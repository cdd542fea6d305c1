import { WaybillError } from '../core/lib/errors.ts';
import type { Connection, JsonAnswer } from './connection.ts';
import type { Accepted, PipelineList, RunRecord, RunSearch } from './generated/api-types.ts';

/* Sends requests about runs and pipelines. */

/** Selects runs. Default: all runs of the token's pipelines. */
export interface RunFilter {
  pipelines?: readonly string[];
  status?: RunRecord['status'];
  /** RFC 3339. Selects runs accepted at this time or later. A date means the beginning of that day in UTC. */
  since?: string;
  /** RFC 3339. Selects runs accepted at this time or earlier. A date means the end of that day in UTC. */
  until?: string;
  /** Words that must all occur in the record. */
  q?: string;
}

const maxPageSize = 500;

/** Yields up to `limit` retained runs, newest first, requesting them page by page. */
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

/** Cancels a run and returns its record. A run that had started may still be stopping. */
export async function cancelRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'cancel');
  return parseRunRecord((await connection.askJson({ method: 'POST', path })).body);
}

/**
 * Starts a waiting run's next try immediately and returns the run's record. Throws `run_not_found` and
 * `run_finished`.
 */
export async function retryRun(connection: Connection, runId: string): Promise<RunRecord> {
  const path = await actionPath(connection, runId, 'retry');
  return (await connection.askJson({ method: 'POST', path })).body as RunRecord;
}

/**
 * Repeats a finished run with the bundle that the daemon still has, and returns the new run. All tries make
 * only one run. Throws `run_not_found`, `run_not_finished` and `bundle_gone`.
 */
export async function rerunRun(connection: Connection, runId: string): Promise<AcceptedRun> {
  const path = await actionPath(connection, runId, 'rerun');
  return acceptedRun(await connection.askJson({ method: 'POST', path }));
}

export interface WaitOptions {
  /** In milliseconds. Default: no timeout. */
  timeoutMs?: number;
  /** Called with every record received until the run has finished. */
  onRecord?: (run: RunRecord) => void;
}

const maxWaitSeconds = 30;
/** The minimum polling interval, because a stopping daemon responds immediately. */
const minPollMs = 1000;

/**
 * Waits until the run has finished and returns its record. Uses long polling: the daemon holds each response
 * for up to half a minute, which proxies tolerate. Throws `run_unfinished` if the run has not finished in
 * time, and `run_not_found`.
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

type Unknown = Record<string, unknown>;

/**
 * Validates a daemon's run record, as far as callers rely on its fields. Throws `unexpected_answer` if one is
 * missing, because a broken or hostile daemon may send anything.
 */
export function parseRunRecord(body: unknown): RunRecord {
  const fault = isObject(body) ? faultOf(body) : 'the answer';
  if (fault === null) return body as RunRecord;
  throw new WaybillError('unexpected_answer', `the daemon's record of a run is not valid: ${fault}`, {
    hint: 'check the URL and the version of the daemon',
  });
}

/** Returns the first invalid field's name; null if there is none. */
function faultOf(record: Unknown): string | null {
  for (const name of ['run_id', 'pipeline_id', 'status', 'accepted_at'])
    if (typeof record[name] !== 'string') return name;
  if (!isTextOrNull(record['finished_at'])) return 'finished_at';
  if (record['progress'] !== null && !isObject(record['progress'])) return 'progress';
  if (!isErrorOrNull(record['error'])) return 'error';
  const destinations = record['destinations'];
  if (!Array.isArray(destinations)) return 'destinations';
  const wrong = destinations.findIndex((each) => !isObject(each) || !isErrorOrNull(each['error']));
  return wrong === -1 ? null : `destinations/${wrong}`;
}

function isErrorOrNull(error: unknown): boolean {
  if (error === null) return true;
  if (!isObject(error)) return false;
  const { code, message, hint, findings } = error;
  return (
    typeof code === 'string' &&
    typeof message === 'string' &&
    isTextOrNull(hint) &&
    Array.isArray(findings) &&
    findings.every(isObject)
  );
}

function isTextOrNull(value: unknown): boolean {
  return value === null || typeof value === 'string';
}

function isObject(value: unknown): value is Unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A run that the daemon has accepted. */
export interface AcceptedRun {
  runId: string;
  /** Its position in its pipeline's queue when it was accepted; null if unknown. */
  position: number | null;
  /**
   * Whether the daemon had already accepted the same bundle or repetition, so that no new run was started.
   */
  isReplayed: boolean;
}

/** Parses the response to a request that starts a run. */
export function acceptedRun({ headers, body }: JsonAnswer): AcceptedRun {
  const { run_id: runId, position } = body as Accepted;
  return { runId, position: position ?? null, isReplayed: headers['idempotency-replayed'] === 'true' };
}
