import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { onAbort } from '../../core/lib/on-abort.ts';
import { wholeNumber } from '../../core/lib/parameters.ts';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { sendJson } from '../http/answer/send-compressed.ts';
import { authenticate, challenge, noteCaller, requireScope, type Token } from '../http/auth.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { onClosed } from '../http/request/client-connection.ts';
import { keepAuthorized, requireAuthorized, watchAuthority } from '../http/request/request-context.ts';
import { jsonContent, type Route, runIdParameter } from '../http/route.ts';
import type { RunPorts } from './run-service.ts';

export const maxSeconds = 60;

const showQuery = queryParameters({
  wait: wholeNumber(0, maxSeconds, 0, {
    description: 'Waits until the run has finished, at most this many seconds, before returning the record.',
    example: 30,
  }),
});

type ShowPorts = Pick<RunPorts, 'http' | 'queue' | 'configured' | 'clock' | 'draining'>;

/**
 * Returns a run's record. By default, knowing the run id is enough; with `protect_runs`, a token of the
 * pipeline is required.
 */
export const showRunRoute: Route<ShowPorts> = {
  method: 'get',
  path: '/runs/{run_id}',
  operationId: 'getRun',
  tag: 'runs',
  summary: 'Get a run',
  description:
    'Needs only the run id, unless `server.http.protect_runs` requires a token of the pipeline. Records are kept for `server.http.retention` after the end of the run.',
  access: 'optional',
  scopes: ['read'],
  parameters: [
    runIdParameter,
    ...showQuery.parameters,
    {
      name: 'If-None-Match',
      in: 'header',
      description: 'The `ETag` of an earlier response. The response is 304 if nothing has changed.',
      schema: { type: 'string' },
    },
  ],
  responses: {
    200: {
      description: 'The record.',
      headers: {
        ETag: { description: 'Changes with the record.', required: true, schema: { type: 'string' } },
      },
      content: jsonContent('RunRecord'),
    },
    304: { description: 'The record has not changed.' },
  },
  problems: [
    'token_expired',
    'insufficient_scope',
    'invalid_request',
    'run_not_found',
    'forbidden',
    'queue_unavailable',
  ],
  handle: (ports) => showRun(ports),
};

function showRun(ports: ShowPorts): RequestHandler<{ runId: string }> {
  return async (req, res) => {
    const { runId } = req.params;
    const token = tokenOfReader(req, res, ports);
    const { wait: seconds } = showQuery.read(req.url);
    const found = await findRun(token, runId, ports);
    keepAuthorized(req, () => requireRun(tokenOfReader(req, res, ports), found));
    if (found.finished_at === null && seconds > 0) {
      await holdUntilFinished(req, res, { runId, seconds }, ports);
      if (res.destroyed) return;
    }
    const record = seconds > 0 ? await findRun(null, runId, ports) : found;
    await sendJson(req, res, record);
  };
}

/**
 * Returns the token of a request about a run, or null if `protect_runs` is off and the run id is enough.
 * Throws `unauthorized`, `token_expired`, or `insufficient_scope` if the token does not have the `read`
 * scope.
 */
export function tokenOfReader(
  req: IncomingMessage,
  res: ServerResponse,
  { http, configured, clock }: Pick<RunPorts, 'http' | 'configured' | 'clock'>,
): Token | null {
  if (!http.protectRuns) return null;
  const token = challenge(req, res, () => authenticate(req.headers.authorization, configured.get(), clock));
  noteCaller(req, token);
  requireScope(token, 'read', res);
  return token;
}

/**
 * Returns a run's record. A null token may read any run. Throws `run_not_found`, or `forbidden` if the token
 * belongs to another pipeline.
 */
export async function findRun(
  token: Token | null,
  runId: string,
  { queue }: Pick<RunPorts, 'queue'>,
): Promise<RunRecord> {
  const record = await queue.find(runId);
  if (record === undefined) {
    throw new WaybillError('run_not_found', 'there is no such run', {
      hint: 'records are kept for server.http.retention, and a restart of the daemon clears them',
    });
  }
  requireRun(token, record);
  return record;
}

/** Throws `forbidden` if the token belongs to another pipeline. A null token may read any run. */
function requireRun(token: Token | null, { pipeline_id: id }: Pick<RunRecord, 'pipeline_id'>): void {
  if (token === null || token.pipelines.has(id)) return;
  throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline of this run`);
}

interface HoldPorts {
  queue: Pick<JobQueue, 'untilFinished'>;
  clock: Clock;
  /** Aborted when the daemon begins to shut down. */
  draining: AbortSignal;
}

/**
 * Waits up to `seconds` for the run to finish. Returns early if the daemon begins to shut down or the client
 * disconnects. Throws an error if the request loses its authorization in the meantime.
 */
async function holdUntilFinished(
  req: IncomingMessage,
  res: ServerResponse,
  { runId, seconds }: { runId: string; seconds: number },
  { queue, clock, draining }: HoldPorts,
): Promise<void> {
  if (seconds === 0 || draining.aborted) return;
  const enough = new AbortController();
  const end = (): void => enough.abort();
  const timer = clock.timeout(seconds * 1000, end);
  onClosed(res, end);
  const release = onAbort(draining, end);
  const watch = watchAuthority(req, clock, end);
  try {
    await queue.untilFinished(runId, enough.signal);
  } finally {
    timer.cancel();
    watch.cancel();
    res.off('close', end);
    release();
  }
  requireAuthorized(req);
}
